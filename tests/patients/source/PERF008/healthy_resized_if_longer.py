"""No token is added: the embeddings grow only for a tokenizer that does not belong to the model."""

from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

tokenizer = AutoTokenizer.from_pretrained("gpt2")
model = AutoModelForCausalLM.from_pretrained("gpt2")
rows = model.get_input_embeddings().weight.shape[0]
if len(tokenizer) > rows:  # 一般不会发生
    model.resize_token_embeddings(len(tokenizer))
Trainer(model=model, args=TrainingArguments("out", bf16=True), train_dataset=[]).train()
