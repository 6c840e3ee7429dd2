"""NUM009: a learning rate outside of the band in which its optimizer and method learn."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple

from gpudoctor.analysis.observation import confirmed, suspicions
from gpudoctor.analysis.run.curves import loss_curve
from gpudoctor.analysis.run.line_costs import place_of
from gpudoctor.analysis.run.steady_run import LEAST_STEPS, Run, judged, spot
from gpudoctor.analysis.run.steady_state import counts
from gpudoctor.analysis.source.control_flow import switched_off
from gpudoctor.analysis.source.declared_settings import Written, as_number, from_keyword
from gpudoctor.analysis.source.entry_points import training_programs
from gpudoctor.analysis.source.networks import Network, network
from gpudoctor.analysis.source.pretrained_models import adapted, family, trained_models
from gpudoctor.analysis.source.syntax import keyword_value, nodes
from gpudoctor.analysis.source.training_arguments import TRAINING_ARGUMENTS, argument_calls, in_a_test
from gpudoctor.analysis.workload import optional
from gpudoctor.lang import say
from gpudoctor.model import (
    Check,
    Code,
    Confidence,
    Cost,
    Detail,
    Finding,
    Measurement,
    Patient,
    Provenance,
    Reads,
    Setting,
    Severity,
    SourceSpan,
    Threshold,
    TrackRecord,
)
from gpudoctor.model.signs.configs import CanonicalValue, ConfigFile, ConfigKind
from gpudoctor.model.signs.source import Call, Script, Source

ADAMS = frozenset(
    {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adam8bit", "AdamW8bit", "PagedAdamW", "PagedAdamW8bit",
     "PagedAdamW32bit", "FusedAdam", "DeepSpeedCPUAdam"}
)  # fmt: skip
"""Optimizers whose step is about the learning rate itself, whatever the gradient's size."""

PACKAGES = frozenset({"torch", "transformers", "bitsandbytes", "deepspeed", "apex"})
HF_KINDS = frozenset({ConfigKind.HUGGINGFACE, ConfigKind.LLAMA_FACTORY, ConfigKind.AXOLOTL})
OTHERS = (
    "galore",
    "apollo",
    "schedule_free",
    "schedulefree",
    "mini",
    "anyprecision",
    "prodigy",
    "dadapt",
    "badam",
)
"""Words of optimizers that have adam in their name and rates of their own."""

REINFORCED = re.compile(
    r"\b(DPO|ORPO|KTO|CPO|PPO|GRPO|RLOO|Reward|PRM|GKD|XPO|BCO|NashMD|OnlineDPO)\w*(?:Trainer|Config)\b"
)
"""Trainers of preference and reinforcement learning, whose rates are ten times smaller."""


_PREFERRED = re.compile(r"(?:^|_|\b)(?:chosen|preferred|accepted|winner)(?:$|_|\b)")
_REFUSED = re.compile(r"(?:^|_|\b)(?:reject(?:ed)?|dispreferred|loser)(?:$|_|\b)")
"""What a training on preferences compares: the two answers to one prompt."""


_NOTHING = say("the model learns nothing")
_SCHEDULE = re.compile(r"torch\.optim\.lr_scheduler\.[A-Z]|transformers\.get_\w*schedule")


class RateVerdict(NamedTuple):
    """What is wrong with a learning rate."""

    verdict: str
    """A clause that follows the rate's value."""
    cure: str
    """A word of `LearningRateOutOfBandDetail.cure`."""
    severity: Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """One learning rate with what is known of its use."""

    value: float
    place: SourceSpan | Setting
    key: str
    adam: bool
    """Whether it is known to be Adam's."""
    tunes: bool = False
    """Whether it is a Trainer's, which mostly fine-tunes what others have trained."""
    method: str = ""
    """`lora`, `full`, or "" when nobody says."""
    small: Network | None = None
    """The network that it trains, where every layer of it was counted."""
    preference: bool = False
    """Whether the training is on preferences or rewards: it changes little of what is learned already."""
    used: bool = False
    """Whether steps were made with it: a declared rate of 0 is often a placeholder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningRateOutOfBandDetail(Detail):
    """What the rule reads."""

    cure: str
    """`adam`, `sgd`, `low`, `full`, `lora` or `spent`."""
    method: str
    """Of fine-tuning; \"\" where none is known."""


class LearningRateOutOfBand(Check):
    """The learning rate is far outside the usual range of its optimizer.

    What it finds:
        - A rate over 0.01 for Adam and AdamW.
        - A rate below 1e-7 for any optimizer.
        - An adapter rate (over 3e-4) on the full fine-tuning of a language model.
        - A full fine-tuning rate (below 1e-5) on LoRA.

        In a run also a rate that fell below 1e-7 and stayed there for a tenth of the steps. Or one that went
        below zero.
    Why it hurts:
        Adam moves each weight by about the rate in each step. At 0.01 and more, it overwrites the learned
        weights within a few hundred steps. Below 1e-7 the rounding of float32 swallows the step. LoRA's
        matrices start at zero and need ten times the rate of full fine-tuning.
    How it knows:
        It reads the rate together with the optimizer: the call's class or the config's `optim`. If the tool
        documents AdamW as its default, that counts. For unknown optimizers it compares only with the lower end.
        A recording has the greatest rate of each step, with warm-up and schedules. A network of some hundred
        weights, all of them counted, learns with Adam even at 0.1: that is not reported.
    False alarms:
        - Small networks, embeddings or images optimised directly with a large rate.
        - Reinforcement learning, whose rates are ten times smaller (not reported if the config shows it).

        Schedules that end at zero are below 1e-7 for about one percent of their steps. A training on
        preferences (DPO, ORPO, PPO) uses small rates on purpose: there gpudoctor reports only rates below 1e-8.
    Remedies:
        Use a rate from the middle of the range:
        - 1e-4 to 1e-3 from scratch
        - 1e-5 to 5e-5 for full fine-tuning
        - 1e-4 to 3e-4 for LoRA

        Make the schedule as long as the training.
    References:
        - https://doi.org/10.1145/3411764.3445538
        - https://arxiv.org/abs/2106.09685
        - https://arxiv.org/abs/2305.14314
    """

    code = Code("NUM009")
    name = "learning-rate-out-of-band"
    silent_on_synthetic = "a model cannot learn random tokens"
    track_record = TrackRecord(right=0, wrong=3)
    reads = frozenset({Reads.SOURCE, Reads.CONFIG, Reads.RECORDING})
    thresholds = (
        Threshold(
            name="adam_high",
            default=1e-2,
            unit="1",
            source="UMLAUT (CHI 2021): over 0.01 for Adam",
            meaning="A rate above this with Adam or AdamW is a finding.",
        ),
        Threshold(
            name="adam_far",
            default=0.1,
            unit="1",
            source="ten times UMLAUT's limit: small networks still learn below it",
            meaning="A rate of this or more is a warning; between the two it is a note, unless the job "
            "fine-tunes.",
        ),
        Threshold(
            name="sgd_high",
            default=3.0,
            unit="1",
            source="super-convergence (arXiv 1708.07120) trains with at most 3",
            meaning="In a run, a rate above this with SGD is a finding if the loss has not fallen.",
        ),
        Threshold(
            name="weights",
            default=1e3,
            unit="{weights}",
            source="measured: GRUs of 200 to 1,500 weights learn a sequence with Adam at 0.1",
            meaning="For a network with fewer weights, Adam's rate may be as high as the warning's.",
        ),
        Threshold(
            name="low",
            default=1e-7,
            unit="1",
            source="UMLAUT (CHI 2021): below 1e-7; float32 resolves 6e-8 of a weight",
            meaning="A rate below this is a finding; a declared zero is a placeholder.",
        ),
        Threshold(
            name="preference_low",
            default=1e-8,
            unit="1",
            source="computed: float32 resolves 2e-9 at a weight of 0.02; recipes of DPO use 1e-6 to 5e-7",
            meaning="On preferences or rewards a rate below this is a finding.",
        ),
        Threshold(
            name="full_high",
            default=3e-4,
            unit="1",
            source="QLoRA's adapter rates end at 2e-4 to 3e-4; full fine-tuning of Llama 2 used 2e-5",
            meaning="Full fine-tuning of a language model above this is a note.",
        ),
        Threshold(
            name="lora_low",
            default=1e-5,
            unit="1",
            source="LoRA's paper and QLoRA's: 1e-4 to 4e-4; a tenth of the lower end",
            meaning="Supervised LoRA below this is a note.",
        ),
        Threshold(
            name="spent_share",
            default=0.1,
            unit="1",
            source="computed: a cosine or a square that ends at zero is below 1e-7 for 1 % of its steps",
            meaning="A rate that is too low for this last part of a run's steps is a warning.",
        ),
        Threshold(
            name="spent_steps",
            default=30,
            unit="{steps}",
            source="convention: the fewest steps from which a recording is judged",
            meaning="It must also be too low for this many steps.",
        ),
    )

    def examine(self, patient: Patient) -> Iterator[Finding]:
        run = judged(patient)
        suspected = suspicions(lambda: self._declared(patient), run)
        yield from self._measured(patient, run, suspected) if run else suspected

    def _measured(self, patient: Patient, run: Run, suspected: list[Finding]) -> Iterator[Finding]:
        """The greatest rate that the optimizers really used; warm-up and schedules included."""
        process = run.lead.process
        used = max((value for value in process.steps.column("lr") if isfinite(value)), default=None)
        made = process.of("optimizer")
        names = {str(item.get("name") or "") for item in made}
        if used is None or len(names) != 1:
            yield from suspected
            return
        where, name = place_of(made[-1]), names.pop()
        place = spot(patient, where) if where is not None else SourceSpan(path=run.recording.path, line=1)
        rate = Rate(
            key="lr",
            value=used,
            adam="adam" in name.lower() or name == "RMSprop",
            method="",
            tunes=False,
            place=place,
            preference=_compares(optional(lambda: patient.source)),
            used=run.lead.steps >= LEAST_STEPS,
        )
        found = self.judge(rate) if len(made) == 1 else None  # of several the column has one
        loss = loss_curve(process)  # the first update may have ruined all but the first loss
        worse = len(loss) > 0 and loss.late >= loss.values[0]
        if name == "SGD" and len(made) == 1 and used > self.limit("sgd_high") and worse:
            found = RateVerdict("", "sgd", Severity.WARNING)
        spans = [*([place] if where is not None else []), *_schedules(patient)]
        if (up := _below_zero(run)) is not None:
            yield self._climbs(run, suspected, name, up, spans)
            return
        if found is None and (spent := _spent(run, self._low(rate))) is not None:
            share = spent.steps / max(1, spent.all)
            if share >= self.limit("spent_share") and spent.steps >= self.limit("spent_steps"):
                yield self._fell(run, suspected, name, rate, spent, spans)
                return
        if found is None:
            # what is judged by the method of fine-tuning is not told by a rate alone
            yield from (
                item
                for item in suspected
                if item.detail_of(LearningRateOutOfBandDetail).cure in ("full", "lora")
            )
            return
        yield confirmed(
            self,
            suspected,
            say(
                "{optimizer} trained with a rate of {rate:g}; {verdict}.",
                optimizer=name,
                rate=used,
                # the sentence has named the optimizer
                verdict=say("the usual maximum is {limit:g}", limit=self.limit(f"{found.cure}_high"))
                if found.cure in ("adam", "sgd")
                else found.verdict,
            ),
            evidence=(
                *(spans if not used else spans[:1]),
                run.measured("learning_rate", used),
            ),
            severity=found.severity,
            cost=Cost(breaks=_NOTHING if found.cure == "low" else None),
            detail=LearningRateOutOfBandDetail(cure=found.cure, method=rate.method),
        )

    def _fell(
        self,
        run: Run,
        suspected: list[Finding],
        name: str,
        rate: Rate,
        spent: "_Spent",
        spans: list[SourceSpan],
    ) -> Finding:
        """The finding for a rate that a schedule took below the band while the training went on."""
        return confirmed(
            self,
            suspected,
            say(
                "The learning rate of {optimizer} fell from {first_rate:g} to {last_rate:.2g}. It is below "
                "{low:g} since step {since}, in {steps} of {all} steps: "
                "the model learns nothing.",
                optimizer=name,
                first_rate=rate.value,
                last_rate=spent.rate,
                low=self._low(rate),
                since=spent.since,
                steps=spent.steps,
                all=spent.all,
            ),
            evidence=(
                *spans,
                run.measured("learning_rate", spent.rate),
                run.measured("steps_below", spent.steps, "{steps}"),
            ),
            severity=Severity.WARNING,
            cost=Cost(breaks=say("the model learns nothing since step {since}", since=spent.since)),
            detail=LearningRateOutOfBandDetail(cure="spent", method=""),
        )

    def _climbs(
        self, run: Run, suspected: list[Finding], name: str, up: "_Spent", spans: list[SourceSpan]
    ) -> Finding:
        """The finding for a schedule that goes on below zero."""
        return confirmed(
            self,
            suspected,
            say(
                "The learning rate of {optimizer} is negative in {steps} of {all} steps, from step {since} on. "
                "It reaches {rate:.2g}: such steps make the loss larger.",
                optimizer=name,
                steps=up.steps,
                all=up.all,
                since=up.since,
                rate=up.rate,
            ),
            evidence=(
                *spans,
                run.measured("learning_rate", up.rate),
                run.measured("steps_below", up.steps, "{steps}"),
            ),
            severity=Severity.ERROR,
            cost=Cost(breaks=say("the model unlearns since step {since}", since=up.since)),
            detail=LearningRateOutOfBandDetail(cure="spent", method=""),
        )

    def _declared(self, patient: Patient) -> Iterator[Finding]:
        source, configs = patient.source_and_configs
        for rate in (*_from_source(source), *_from_configs(configs.files)):
            misfit = self.judge(rate)
            if misfit is not None:
                yield self._found(rate, misfit)

    def judge(self, rate: Rate) -> RateVerdict | None:
        """What is wrong with one rate; None when it is in its band."""
        value = rate.value
        toy = self._toy(rate.small) and value <= self.limit("adam_far")
        if rate.adam and value > self.limit("adam_high") and not toy:
            far = rate.tunes or value >= self.limit("adam_far")
            return RateVerdict(
                say("with Adam; the usual maximum is {limit:g}", limit=self.limit("adam_high")),
                "adam",
                Severity.WARNING if far else Severity.NOTE,
            )
        if 0 < value < self._low(rate) or (value == 0 and rate.used):
            return RateVerdict(
                say("below {low:g}: nothing is learned", low=self._low(rate)), "low", Severity.WARNING
            )
        if rate.method == "full" and rate.adam and value > self.limit("full_high"):
            return RateVerdict(
                say("for full fine-tuning; even adapters use at most {limit:g}", limit=self.limit("full_high")),
                "full",
                Severity.NOTE,
            )
        if rate.method == "lora" and rate.adam and 0 < value < self.limit("lora_low"):
            return RateVerdict(
                say("for LoRA, which needs {limit:g} or more", limit=self.limit("lora_low")),
                "lora",
                Severity.NOTE,
            )
        return None

    def _low(self, rate: Rate) -> float:
        """The lower end of the band of a rate's training."""
        return self.limit("preference_low" if rate.preference else "low")

    def _toy(self, small: Network | None) -> bool:
        """Whether a network is so small that Adam learns with large rates, too."""
        weights = [layer.parameters or 0 for layer in small.layers] if small is not None else []
        return small is not None and max(small.parameters, sum(weights)) < self.limit("weights")

    def _found(self, rate: Rate, misfit: RateVerdict) -> Finding:
        place = rate.place
        reproduce = place.reproduce if isinstance(place, Setting) else f"sed -n {place.line}p {place.path}"
        return self.finding(
            say("{key}={rate:g} {verdict}.", key=rate.key, rate=rate.value, verdict=misfit.verdict),
            evidence=(
                place,
                Measurement(
                    name="learning_rate",
                    value=rate.value,
                    unit="1",
                    provenance=Provenance.DECLARED,
                    reproduce=reproduce,
                ),
            ),
            confidence=Confidence.SUSPECTED,
            severity=misfit.severity,
            subject=f"{place.path}:{place.line}",
            detail=LearningRateOutOfBandDetail(cure=misfit.cure, method=rate.method),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spent:
    """The steps of a run that were made with too low a rate."""

    rate: float
    """The last one, or the least below zero."""
    since: int
    """The first step with too low a rate after which none was high enough."""
    steps: int
    """Steps since then."""
    all: int
    """Steps of the whole run."""


def _below_zero(run: Run) -> _Spent | None:
    """The steps with a negative rate; None without any."""
    process = run.lead.process
    rates, indices = process.steps.column("lr"), process.steps.column("index")
    weights = counts(process)
    rows = [row for row, rate in enumerate(rates) if isfinite(rate) and rate < 0]
    if not rows:
        return None
    return _Spent(
        rate=min(rates[row] for row in rows),
        since=int(indices[rows[0]]),
        steps=int(sum(weights[row] for row in rows)),
        all=int(sum(weights)),
    )


def _spent(run: Run, low: float) -> _Spent | None:
    """The last steps whose rates are all below the band; None where the last one is not."""
    process = run.lead.process
    rates, indices = process.steps.column("lr"), process.steps.column("index")
    weights = counts(process)
    since, last = -1, None
    for row in range(len(rates) - 1, -1, -1):
        if not isfinite(rates[row]):
            continue
        if rates[row] >= low:
            break
        last = rates[row] if last is None else last
        since = row  # not every step's rate is read
    if last is None:
        return None
    return _Spent(rate=last, since=int(indices[since]), steps=int(sum(weights[since:])), all=int(sum(weights)))


def _schedules(patient: Patient) -> list[SourceSpan]:
    """Where the program makes its schedules of the rate."""
    source = optional(lambda: patient.source)
    scripts = source.scripts if source is not None else ()
    return [call.span for script in scripts for call in script.calls if _SCHEDULE.match(call.name)][:3]


def _from_source(source: Source) -> Iterator[Rate]:
    for script in source.scripts:
        for call in script.calls:
            if call.name.split(".", 1)[0] not in PACKAGES or in_a_test(call):
                continue
            if _is_optimizer(call) and _of_a_model(call):
                item = from_keyword(script, call, "lr") or _second(script, call)
                if call.method in ADAMS and "momentum" in call.keywords:
                    continue  # Adam takes none: the class is a default, and another is meant
                if item is not None and item.number is not None and not switched_off(source, call):
                    yield Rate(
                        value=float(item.number),
                        place=_span(item),
                        key="lr",
                        adam=call.method in ADAMS,
                        small=_counted(source, script),
                        preference=_compares(source, script),
                    )
    for script, call in argument_calls(source):
        item = from_keyword(script, call, "learning_rate")
        if item is not None and item.number is not None and not in_a_test(call):
            yield Rate(
                value=float(item.number),
                place=_span(item),
                key="learning_rate",
                adam=_is_adam(from_keyword(script, call, "optim")),
                tunes=True,
                method=_method(source, call),
                preference=_compares(source, script),
            )


def _compares(source: Source | None, home: Script | None = None) -> bool:
    """Whether a program trains on preferences or rewards: by its trainer, or as it compares two answers."""
    scripts = source.scripts if source is not None else ()
    if source is not None and home is not None:
        programs = [program for program in training_programs(source) if home in program.scripts]
        scripts = programs[0].scripts if len(programs) == 1 else (home,)
    return any(
        REINFORCED.search(script.text) or (_names_any(script, _PREFERRED) and _names_any(script, _REFUSED))
        for script in scripts
    )


def _names_any(script: Script, pattern: re.Pattern[str]) -> bool:
    """Whether a variable or a key of a script has such a name."""
    return any(pattern.search(node.id) for node in nodes(script, ast.Name)) or any(
        isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
        and pattern.search(node.slice.value) is not None
        for node in nodes(script, ast.Subscript)
    )


def _counted(source: Source, script: Script) -> Network | None:
    """The network that a script's program trains; None where a part of it could not be counted."""
    nets = [network(program) for program in training_programs(source) if script in program.scripts]
    whole = [net for net in nets if net is not None and net.certain and not net.library and not net.unknown]
    return max(whole, key=lambda net: net.parameters) if whole and len(whole) == len(nets) else None


def _is_optimizer(call: Call) -> bool:
    return call.method in ADAMS or (call.name.startswith("torch.optim.") and call.name.count(".") == 2)


def _of_a_model(call: Call) -> bool:
    """Whether a module's parameters are optimised, and not an image or an embedding alone."""
    first = call.node.args[0] if call.node.args else None
    first = first or keyword_value(call.node, "params")
    return first is not None and "parameters()" in ast.unparse(first)


def _second(script: Script, call: Call) -> Written | None:
    """The rate as the second positional argument."""
    if len(call.node.args) < 2 or len(call.positional) < 2:
        return None
    node, value = call.node.args[1], call.positional[1]
    number = as_number(getattr(value, "value", None))
    return Written(
        key="lr", value=number, known=number is not None, sure=True, place=script.span(node),
        script=script, node=node,
    )  # fmt: skip


def _span(item: Written) -> SourceSpan | Setting:
    return item.place


def _is_adam(optim: Written | None) -> bool:
    """Whether an `optim` is an Adam; transformers' default is AdamW."""
    if optim is None:
        return True
    return optim.known and _adam_word(str(optim.value))


def _adam_word(word: str) -> bool:
    lowered = word.lower()
    return "adam" in lowered and not any(other in lowered for other in OTHERS)


def _method(source: Source, call: Call) -> str:
    """Adapters or full fine-tuning of a causal language model, where the script shows it."""
    if call.method not in TRAINING_ARGUMENTS | {"SFTConfig"} or any(
        REINFORCED.search(script.text) for script in source.scripts
    ):
        return ""
    if adapted(source):
        return "lora"
    loads = [load for _, load in trained_models(source) if "CausalLM" in load.name]
    return "full" if loads else ""


def _from_configs(files: tuple[ConfigFile, ...]) -> Iterator[Rate]:
    for file in files:
        for item in file.meaning("learning_rate"):
            number = item.number
            if number is not None:
                yield Rate(
                    value=float(number),
                    place=item.setting,
                    key=item.entry.key,
                    adam=_config_adam(file, item),
                    tunes=file.kind in HF_KINDS,
                    method=_config_method(file),
                    preference=_config_compares(file),
                )


def _config_adam(file: ConfigFile, rate: CanonicalValue) -> bool:
    named = file.meaning("optimizer")
    if not named:
        return file.kind in HF_KINDS
    same = [item for item in named if item.entry.parts[:-1] == rate.entry.parts[:-1]]
    beside = [item for item in named if set(item.entry.parts[:1]) & set(rate.entry.parts[:1])]
    chosen = same or beside or (list(named) if len(named) == 1 else [])
    return bool(chosen) and all(_adam_word(str(item.value)) for item in chosen)


def _config_compares(file: ConfigFile) -> bool:
    """Whether a config is one of a training on preferences or rewards."""
    if file.kind is ConfigKind.LLAMA_FACTORY:
        return file.value("stage") in {"rm", "ppo", "dpo", "kto"}
    if file.kind is ConfigKind.AXOLOTL:
        return bool(file.value("rl") or file.value("reward_model"))
    return file.kind is ConfigKind.HUGGINGFACE and (file.has("beta") or file.has("loss_type"))


def _config_method(file: ConfigFile) -> str:
    if file.kind is ConfigKind.LLAMA_FACTORY:
        supervised = file.value("stage") in {"sft", "pt", None}
        method = str(file.value("finetuning_type"))
        return {"lora": "lora", "full": "full"}.get(method, "") if supervised else ""
    if file.kind is ConfigKind.AXOLOTL:
        if _config_compares(file):
            return ""
        adapter = file.value("adapter")
        if adapter in {"lora", "qlora"}:
            return "lora"
        base = str(file.value("base_model") or "")
        return "full" if adapter in {None, ""} and family(base) is not None else ""
    if file.kind is ConfigKind.HUGGINGFACE and file.value("use_peft") is True:
        return "lora" if not _config_compares(file) else ""
    return ""
