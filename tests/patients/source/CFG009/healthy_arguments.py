from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


class Config:
    torch_dtype = "auto"


def main(tokenizer, evaluation_strategy="epoch"):
    model = AutoModelForCausalLM.from_pretrained("gpt2", dtype="auto")
    args = TrainingArguments("out", eval_strategy=evaluation_strategy, gradient_checkpointing=True)
    Trainer(model=model, args=args, processing_class=tokenizer, train_dataset=[]).train()
