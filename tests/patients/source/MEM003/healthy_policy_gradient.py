"""REINFORCE: log-probabilities are collected for the backward at the end of an episode."""
import torch
from torch.distributions import Categorical


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)
        self.saved_log_probs = []
        self.rewards = []

    def forward(self, x):
        return torch.softmax(self.layer(x), dim=-1)


policy = Policy()
optimizer = torch.optim.Adam(policy.parameters())


def select_action(state):
    m = Categorical(policy(state))
    action = m.sample()
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    policy_loss = []
    for log_prob, reward in zip(policy.saved_log_probs, policy.rewards):
        policy_loss.append(-log_prob * reward)
    optimizer.zero_grad()
    torch.stack(policy_loss).sum().backward()
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_log_probs[:]


for episode in range(1000):
    for t in range(200):
        select_action(torch.randn(4))
        policy.rewards.append(1.0)
    finish_episode()
