from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

model = AutoModelForSeq2SeqLM.from_pretrained("google/mt5-base")
args = Seq2SeqTrainingArguments("out", fp16=True)
Seq2SeqTrainer(model=model, args=args, train_dataset=[]).train()
