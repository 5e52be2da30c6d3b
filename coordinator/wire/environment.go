package wire

// The environment of a rank process.
const (
	EnvSocket      = "CKPT_SOCKET" // of the coordinator
	EnvToken       = "CKPT_TOKEN"
	EnvIncarnation = "CKPT_INCARNATION"
	EnvBeat        = "CKPT_BEAT" // period of the signs of life
	EnvRank        = "CKPT_RANK"
	EnvAgent       = "CKPT_AGENT"  // path of the binary that is the agent of a program's process
	EnvClient      = "CKPT_CLIENT" // the descriptor that leads to the client; set by the client
)

// RankVariables are where launchers tell a process its rank, ours first.
var RankVariables = []string{EnvRank, "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}

// SizeVariables are where launchers tell a process the number of ranks.
var SizeVariables = []string{"PMIX_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"}
