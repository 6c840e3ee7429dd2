"""A Trainer of transformers that logs, evaluates and saves on every step."""

import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments


class Tokens(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.rows = torch.randint(0, 512, (count, 32), generator=generator)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


class Clock(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 20:
            self.began = time.perf_counter()

    def on_train_end(self, args, state, control, **kwargs):
        print("step seconds", (time.perf_counter() - self.began) / (state.global_step - 20))


def main():
    torch.set_num_threads(1)
    config = GPT2Config(
        vocab_size=512, n_positions=32, n_embd=96, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0
    )
    arguments = TrainingArguments(
        output_dir="out",
        max_steps=400,
        per_device_train_batch_size=8,
        eval_strategy="steps",
        eval_steps=1,  # sick
        # well: eval_steps=500,
        save_strategy="steps",
        save_steps=1,  # sick
        # well: save_steps=500,
        save_total_limit=2,
        logging_steps=1,  # sick
        # well: logging_steps=50,
        report_to="none",
        use_cpu=True,
        seed=0,
    )
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=arguments,
        train_dataset=Tokens(3200, 1),
        eval_dataset=Tokens(64, 2),
        callbacks=[Clock()],
    )
    trainer.train()


if __name__ == "__main__":
    main()
