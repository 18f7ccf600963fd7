"""The optimizer: Muon for matrices and AdamW for the rest, shared out over the workers."""
import torch



class Optimizer:
    """Muon (Jordan et al. 2024) for the layers' matrices: momentum, made orthogonal by five Newton-Schulz steps, so
    that every direction learns at one rate. AdamW for the embedding and the norms. The state lies in shared memory, and
    a step updates the parameters of one worker only: the workers share them out by layer."""
    DECAY, BETAS, MOMENTUM = 0.1, (0.9, 0.95), 0.95

    def __init__(self, model, workers):
        c = model.config
        q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
        fused = {"qkv": [q, kv, kv], "gate_up": [c["intermediate_size"]] * 2}
        self.matrices, self.others, self.state = [[] for _ in range(workers)], [[] for _ in range(workers)], {}
        for name, p in model.named_parameters():
            part = name.split(".")
            owner = (int(part[1]) if part[0] == "layers" else workers - 1) % workers
            # tables of distances are embeddings, and a row for each head is a few numbers
            matrix = (part[0] == "layers" and p.dim() == 2 and "relative" not in name and
                      len(p) > c["num_attention_heads"])
            if matrix:
                self.matrices[owner].append((name, p, fused.get(part[-2], [len(p)])))
            else:
                self.others[owner].append((name, p))
            for kind in ("momentum",) if matrix else ("momentum", "square"):
                self.state[f"{name}.{kind}"] = torch.zeros_like(p, requires_grad=False).share_memory_()

    @torch.no_grad()
    def step(self, worker, grads, lr, muon, t):
        decay, betas, momentum = self.DECAY, self.BETAS, self.MOMENTUM
        for name, p, parts in self.matrices[worker]:
            m = self.state[f"{name}.momentum"].lerp_(grads[name], 1 - momentum)
            nesterov = grads[name].lerp(m, momentum).split(parts)
            for w, u in zip(p.mul_(1 - lr * decay).split(parts), nesterov):
                w.add_(orthogonal(u), alpha=-muon * lr * max(1, u.shape[0] / u.shape[1]) ** 0.5)
        for name, p in self.others[worker]:
            if p.dim() == 2:
                p.mul_(1 - lr * decay)
            m = self.state[f"{name}.momentum"].lerp_(grads[name], 1 - betas[0])
            v = self.state[f"{name}.square"].lerp_(grads[name].square(), 1 - betas[1])
            p.addcdiv_(m, (v / (1 - betas[1] ** t)).sqrt_().add_(1e-8), value=-lr / (1 - betas[0] ** t))


def orthogonal(x):
    """The (semi-)orthogonal matrix nearest to x, roughly: singular values come out between 0.7 and 1.2."""
    tall = x.shape[0] > x.shape[1]
    x = x.t() if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.t()
        x = 3.4445 * x + (2.0315 * (a @ a) - 4.7750 * a) @ x
    return x.t() if tall else x
