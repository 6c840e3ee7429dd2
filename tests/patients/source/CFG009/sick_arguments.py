from transformers import AutoModelForCausalLM, Trainer, TrainingArguments


def main(tokenizer):
    model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype="auto")
    args = TrainingArguments("out", evaluation_strategy="epoch", no_cuda=False)  # 旧参数名
    Trainer(model=model, args=args, tokenizer=tokenizer, train_dataset=[], eval_dataset=[]).train()
