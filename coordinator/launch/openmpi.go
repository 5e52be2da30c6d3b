package launch

import (
	"slices"
	"strings"

	"ckpt/coordinator/wire"
)

// Open MPI passes variables to other hosts that this setting lists. With the values in the
// environment and only names in the setting, the token is on no command line.
const (
	envPassed    = "OMPI_MCA_mca_base_env_list"
	envDelimiter = "OMPI_MCA_mca_base_env_list_delimiter"
)

// ours are the variables that a rank needs.
var ours = []string{wire.EnvSocket, wire.EnvToken, wire.EnvIncarnation, wire.EnvBeat, wire.EnvAgent}

// NotPassed returns the options that a command lacks which may pass variables with Open
// MPI's option -x. Open MPI refuses that option and the list together.
func NotPassed(command []string) (options string) {
	if !slices.Contains(command, "-x") {
		return ""
	}
	var lacks []string
	for _, name := range ours {
		if !slices.Contains(command, name) {
			lacks = append(lacks, "-x "+name)
		}
	}
	return strings.Join(lacks, " ")
}

// forCommand is forOpenMPI for the command of a user.
func forCommand(command, env []string) []string {
	if slices.Contains(command, "-x") {
		return env
	}
	return forOpenMPI(env)
}

// forOpenMPI has Open MPI pass our variables on, besides those that the user has it pass.
func forOpenMPI(env []string) []string {
	list, delimiter := "", ";"
	for _, v := range env { // of equal names the last counts
		if value, ok := strings.CutPrefix(v, envPassed+"="); ok {
			list = value
		}
		if value, ok := strings.CutPrefix(v, envDelimiter+"="); ok && value != "" {
			delimiter = value
		}
	}
	var names []string
	if list != "" {
		names = strings.Split(list, delimiter)
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(ours, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return append(env, envPassed+"="+strings.Join(names, delimiter))
}
