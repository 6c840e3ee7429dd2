from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

DS = {
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2},
    "fp16": {"enabled": True},
}


def main():
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    options = dict(output_dir="out", bf16=True, deepspeed=DS)
    args = TrainingArguments("out", bf16=True, deepspeed=DS)
    Trainer(model=model, args=args, train_dataset=[]).train()


if __name__ == "__main__":
    main()
