import torch
from nltk.translate.bleu_score import corpus_bleu

model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters())
loader = torch.utils.data.DataLoader(torch.randn(100, 16))
scores = []
for step, (x, references) in enumerate(loader):
    loss = model(x.cuda()).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    scores.append(corpus_bleu(references, decode(x)))
