package dataset

import "ckpt/zones"

// An Engine is the checkpointer whose files are measured or predicted.
type Engine string

// The engines. DMTCP writes an image of each process with everything in it. Ckpt stores
// the library once for a job and the segment once for a node, and leaves out zeros and
// what has not changed.
const (
	DMTCP Engine = "dmtcp"
	Ckpt  Engine = "ckpt"
)

// A JobRun is what one job has measured: how it ran, and what its checkpoints stored and
// cost. Sizes are in bytes, times in seconds, of all ranks together.
type JobRun struct {
	Job    string `json:"job"`
	App    string `json:"app"` // as in workload names: bt
	Class  string `json:"class"`
	Engine Engine `json:"engine"`
	MPI    string `json:"mpi"` // mpich or openmpi
	NP     int    `json:"np"`
	// Mapping is the number of ranks of each node, in blocks.
	Mapping     []int  `json:"mapping"`
	Mode        string `json:"mode"`
	Log         string `json:"log,omitempty"` // of messages between groups
	GroupSize   int    `json:"group_size,omitempty"`
	Codec       string `json:"codec"`
	Layout      string `json:"layout"`
	Aggregators int    `json:"aggregators,omitempty"` // 0: the usual number
	Incremental bool   `json:"incremental"`
	Async       bool   `json:"async,omitempty"`
	// Saved says that checkpoints hold only the arrays that have to be saved.
	Saved bool `json:"saved,omitempty"`
	// Workload is the workload spec that the job ran, as YAML; empty if unknown.
	Workload string `json:"workload,omitempty"`
	// Program says that it was a program of a user: no library is stored, and what it
	// computes is unknown.
	Program bool `json:"program,omitempty"`
	// Storage is the directory of the store.
	Storage string `json:"storage"`

	Checkpoints []JobCheckpoint `json:"checkpoints"` // oldest first
	// Logs is what the ranks logged of messages between groups, nil without groups.
	Logs *JobLogs `json:"logs,omitempty"`
	// Restarts of all runs of the job, oldest first.
	Restarts []JobRestart `json:"restarts,omitempty"`
}

// JobLogs is what the message logs of all ranks cost, added up over all runs of a job as
// far as its journal knows.
type JobLogs struct {
	// Iterations is for how many iterations of the whole job, on average of the ranks.
	Iterations float64 `json:"iterations"`
	Bytes      int64   `json:"bytes"`   // of frames, heads and padding included
	Commits    int64   `json:"commits"` // to the disk, each with all frames that waited
	Seconds    float64 `json:"seconds"` // that the ranks waited for them, together
}

// A JobRestart is what a restart of a job, or of some of its groups, cost.
type JobRestart struct {
	// Failed says that ranks had died; else a user restarted the job.
	Failed bool `json:"failed"`
	// Groups and Ranks were restarted. A coordinated job has one group.
	Groups int `json:"groups"`
	Ranks  int `json:"ranks"`
	// TotalS is the time from the failure, or from the start of the run, until all ranks
	// compute. ReadS of it was reading and unpacking images, in the slowest rank, and
	// LogS reading message logs.
	TotalS float64 `json:"total_s"`
	ReadS  float64 `json:"read_s"`
	LogS   float64 `json:"log_s,omitempty"`
	// ReadBytes are read from images by all ranks, unpacked, LogBytes from logs.
	ReadBytes int64 `json:"read_bytes"`
	LogBytes  int64 `json:"log_bytes,omitempty"`
	// LostIterations is how many iterations each of them repeats, on average. LostS is
	// the time that these took at first and ReplayS the time of repeating them; ReplayS is
	// nil if the ranks never came as far again.
	LostIterations float64  `json:"lost_iterations"`
	LostS          float64  `json:"lost_s,omitempty"`
	ReplayS        *float64 `json:"replay_s,omitempty"`
}

// A JobCheckpoint is what one checkpoint stored and cost. In a job of several groups it
// is of the ranks of one group.
type JobCheckpoint struct {
	Number int `json:"number"`
	Group  int `json:"group,omitempty"`
	Ranks  int `json:"ranks"`
	// Iterations is how many the ranks computed since their checkpoint before, or since
	// the beginning.
	Iterations int `json:"iterations"`
	// Full says that nothing of it is in the files of earlier checkpoints, but for the
	// library.
	Full bool `json:"full"`
	// Memory is what the ranks occupied, with the segment once for each node and the
	// library once. Images of DMTCP have both once for each rank.
	Memory zones.Sizes `json:"memory"`
	// Unpacked is what of it was stored, Stored the bytes that this took in files. The
	// library counts where it was stored, in the first checkpoint of a job. Regions have
	// the same by region of the memory.
	Unpacked zones.Sizes `json:"unpacked"`
	Stored   zones.Sizes `json:"stored"`
	Regions  []JobRegion `json:"regions,omitempty"`
	// Overhead is the headers and indexes of the files. StoredBytes is what the
	// checkpoint added to the store, without the library.
	Overhead    int64 `json:"overhead"`
	StoredBytes int64 `json:"stored_bytes"`
	Files       int   `json:"files"` // that it added, without the library and the manifest

	CoordinationS float64 `json:"coordination_s"`
	ManagementS   float64 `json:"management_s"`
	StorageS      float64 `json:"storage_s"`
	PauseS        float64 `json:"pause_s"`
	// LogBytes and LogMessages are what the ranks logged since the checkpoint before.
	LogBytes    int64 `json:"log_bytes,omitempty"`
	LogMessages int64 `json:"log_messages,omitempty"`
}

// LatencyS is the time of the checkpoint.
func (c *JobCheckpoint) LatencyS() float64 { return c.CoordinationS + c.ManagementS + c.StorageS }

// A JobRegion is a region of the memory, such as an array, of all ranks together.
type JobRegion struct {
	Name string     `json:"name"`
	Zone zones.Zone `json:"zone"`
	// Memory is what it occupied, Zeros what of it were zeros; Unpacked was stored in
	// this checkpoint and took Stored bytes. The rest was stored before.
	Memory   int64 `json:"memory"`
	Zeros    int64 `json:"zeros"`
	Unpacked int64 `json:"unpacked"`
	Stored   int64 `json:"stored"`
}
