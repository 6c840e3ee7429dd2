"""Every public name of the modules that read a run, as `gpudoctor.analysis.of_run` gives them."""

from gpudoctor.analysis.live.growth import *
from gpudoctor.analysis.live.rank_positions import *
from gpudoctor.analysis.live.stack_shares import *
from gpudoctor.analysis.run.aligned_ranks import *
from gpudoctor.analysis.run.cost_attribution import *
from gpudoctor.analysis.run.cpu_contention import *
from gpudoctor.analysis.run.curves import *
from gpudoctor.analysis.run.data_waits import *
from gpudoctor.analysis.run.deaths import *
from gpudoctor.analysis.run.instrumentation import *
from gpudoctor.analysis.run.job_facts import *
from gpudoctor.analysis.run.line_costs import *
from gpudoctor.analysis.run.line_ownership import *
from gpudoctor.analysis.run.memory_growth import *
from gpudoctor.analysis.run.memory_headroom import *
from gpudoctor.analysis.run.rank_positions import *
from gpudoctor.analysis.run.recorded_gpus import *
from gpudoctor.analysis.run.recorded_loaders import *
from gpudoctor.analysis.run.recorded_statements import *
from gpudoctor.analysis.run.rollouts import *
from gpudoctor.analysis.run.run_numbers import *
from gpudoctor.analysis.run.statement_effects import LineOwner as LineOwner
from gpudoctor.analysis.run.steady_state import *
from gpudoctor.analysis.run.trainer_engines import *
from gpudoctor.analysis.run.training.gradients import *
from gpudoctor.analysis.run.training.parameters import *
from gpudoctor.analysis.run.training.ranks import uneven as uneven
from gpudoctor.analysis.run.training.schedule import ended as ended
from gpudoctor.analysis.run.training.schedule import misfits as misfits
from gpudoctor.analysis.run.trends import *
from gpudoctor.analysis.run.unmeasured import *
from gpudoctor.analysis.run.untrained_models import *
from gpudoctor.model.signs.process import *
from gpudoctor.model.signs.recording import *
