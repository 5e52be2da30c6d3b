package wire

// The environment of a rank process.
const (
	EnvSocket      = "CKPT_SOCKET" // of the coordinator
	EnvToken       = "CKPT_TOKEN"
	EnvIncarnation = "CKPT_INCARNATION"
	EnvBeat        = "CKPT_BEAT" // period of the signs of life
	EnvRank        = "CKPT_RANK"
)

// RankVariables are where launchers tell a process its rank, ours first.
var RankVariables = []string{EnvRank, "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}
