package job

import "time"

// A Program is a command of the user that starts all ranks of an MPI program.
type Program struct {
	Command []string `json:"command"` // mpiexec, its options, the program and its arguments
	Dir     string   `json:"dir"`     // the directory in which the command is started
	// Executable is the file that the processes run, and Digest its BLAKE3, as rank 0
	// found them when the job was launched.
	Executable string `json:"executable,omitempty"`
	Digest     string `json:"digest,omitempty"`
	// Grace is how long the program may take to end after it was told to stop.
	Grace time.Duration `json:"grace,omitempty"`
}
