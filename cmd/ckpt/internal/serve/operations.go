package serve

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/wire"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/container"
)

// An operation is one command of ckpt as a request. Its parameters are flags of the command, its
// result is what the command prints with --json, and its errors have the command's hints.
type operation struct {
	method, path string
	// command is the command line. A word in braces is the path's, or the body's if the path has
	// it not; the flags in flags are the parameters that a request may have.
	command string
	flags   string
	right   right
	how     manner
	summary string
}

// manner is how an operation runs.
type manner int

const (
	answer manner = iota // while the request waits
	long                 // as a task of the service, which has its result
	detach               // as a process of its own, which outlives the service
)

const (
	describing = "np nodes map vary io aggregators buffer law mpi level engine codec layout async"
	scheduling = "every interval count overhead keep keep-hourly keep-daily on-full stagger jitter seed"
	oneJob     = "/api/stores/{store}/jobs/{job}"
)

// operations are all operations on jobs and all predictions. No flag here names a file, a
// directory or a program.
var operations = []operation{
	{"GET", "/api/stores/{store}/jobs", "status", "", reading, answer, "List the jobs of a store with their states."},
	{"GET", oneJob, "status {job}", "", reading, answer, "Show the state of a job."},
	{"GET", oneJob + "/checkpoints", "list {job}", "last", reading, answer, "List the checkpoints of a job."},
	{"GET", oneJob + "/checkpoints/{n}", "show {job}@{n}", "", reading, answer, "Show a checkpoint, zone by zone and rank by rank."},
	{"GET", oneJob + "/recovery-line", "show {job} --recovery-line", "", reading, answer, "Show where the job resumes from if all its ranks fail."},
	{"POST", "/api/stores/{store}/verify", "verify", "", reading, long, "Check every byte of all jobs of a store."},
	{"POST", oneJob + "/verify", "verify {job}", "storage-level", reading, long, "Check every byte of a job."},
	{"POST", oneJob + "/checkpoints/{n}/verify", "verify {job}@{n}", "storage-level", reading, long, "Check every byte of a checkpoint."},
	{"POST", oneJob + "/diff", "diff {job}@{a} {job}@{b}", "", reading, long, "Compare two checkpoints of a job, a and b."},
	{"POST", "/api/stores/{store}/jobs", "launch {app} --job={job}", "np nodes map iterations mode group-size log level auto-restart restarts walltime async codec layout incremental fail " + scheduling, changing, detach, "Launch a simulated job."},
	{"POST", oneJob + "/checkpoint", "checkpoint {job}", "", changing, long, "Take a checkpoint of a running job now."},
	{"POST", oneJob + "/stop", "stop {job}", "now", changing, long, "Stop a running job, after a last checkpoint or at once."},
	{"POST", oneJob + "/restart", "restart {job}", "map nodes np checkpoint exact again auto-restart restarts walltime", changing, detach, "Continue a job from a checkpoint."},
	{"POST", oneJob + "/prune", "prune {job} --yes", "keep keep-hourly keep-daily dry-run force", changing, long, "Remove all but the newest checkpoints of a job."},
	{"GET", oneJob + "/prunable", "prune {job} --dry-run --yes", "keep keep-hourly keep-daily", reading, answer, "Show which checkpoints of a job a prune would remove."},
	{"GET", oneJob + "/evaluation", "predict eval {job}", "engine", reading, answer, "Compare the checkpoints of a job with their predictions."},
	{"GET", oneJob + "/checkpoints/{n}/trace", "trace analyze {job}@{n}", "gap all", reading, answer, "Analyse the I/O of a checkpoint."},
	{"DELETE", oneJob, "rm {job} --yes", "dry-run", changing, long, "Remove a job with all its files."},
	{"GET", "/api/predict/size/{app}", "predict size {app}", describing + " manager-files", reading, answer, "Predict the size of a checkpoint."},
	{"GET", "/api/predict/time/{app}", "predict time {app}", describing + " on background mode log stagger group-size", reading, answer, "Predict the time of a checkpoint."},
	{"GET", "/api/predict/count/{app}", "predict count {app}", describing + " on background app-time capacity checkpoint-time confident downtime keep mtbf node-mtbf overhead restart size", reading, answer, "Predict how many checkpoints a run can afford."},
	{"GET", "/api/predict/plan/{app}", "predict plan {app}", "np nodes map level engine mpi on background app-time overhead mtbf node-mtbf checkpoints capacity keep minimize max-nodes ppn top mode", reading, answer, "Compare ways to take checkpoints."},
	{"GET", "/api/predict/storage/{app}", "predict storage {app}", describing + " downtime keep memory mtbf node-mtbf node-rate protect share-local size waste", reading, answer, "Predict the storage that a machine needs for an accepted waste."},
	{"GET", "/api/predict/scale/{app}", "predict scale {app}", "np engine mpi checkpoints codec", reading, answer, "Predict times and sizes over numbers of ranks."},
	{"GET", "/api/layout/{app}", "layout {app}", "np nodes map mpi on background layout aggregators buffer strategy stripe-count stripe-size first-ost p1 p2 p3 p4", reading, answer, "Plan how ranks write a checkpoint together."},
	{"POST", "/api/tune/{app}", "tune {app}", "np nodes map mpi level on background objective memory async codec layout incremental stripe-count stripe-size", reading, long, "Find the best way to write a checkpoint."},
	{"POST", "/api/simulate", "simulate", "nodes np node-bytes store-rate local-rate network-rate on background app-time interval mode mtbf node-mtbf node-loss shape protect drain drain-slowdown detect restart replay logging log-growth repair spares runs seed", reading, long, "Simulate the whole life of a job with its failures."},
	{"GET", "/api/interval", "interval", "app-time cost downtime interval lag async mtbf node-mtbf nodes restart shape steady", reading, answer, "Find the best interval for a failure rate."},
}

// words returns the parameters that stand in braces in the command.
func (o *operation) words() (list []string) {
	rest := o.command
	for {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			return list
		}
		name, after, _ := strings.Cut(after, "}")
		if !strings.Contains(" "+strings.Join(list, " ")+" ", " "+name+" ") {
			list = append(list, name)
		}
		rest = after
	}
}

// inPath reports whether a parameter stands in the path.
func (o *operation) inPath(name string) bool { return strings.Contains(o.path, "{"+name+"}") }

// schema is the name of the schema of the result.
func (o *operation) schema() string {
	var words []string
	for word := range strings.FieldsSeq(o.command) {
		if strings.ContainsAny(word, "{-") {
			break
		}
		words = append(words, word)
	}
	return strings.Join(words, "-")
}

// id names the operation in the OpenAPI document and in tasks.
func (o *operation) id() string {
	words := []string{strings.ToLower(o.method)}
	for part := range strings.SplitSeq(strings.TrimPrefix(o.path, "/api/"), "/") {
		if !strings.HasPrefix(part, "{") {
			words = append(words, part)
		} else if part != "{store}" {
			words = append(words, "by-"+strings.Trim(part, "{}"))
		}
	}
	return strings.Join(words, "-")
}

// commandOf finds the command of an operation.
func (o *operation) commandOf(root *cobra.Command) (*cobra.Command, error) {
	cmd, _, err := root.Find(strings.Split(o.schema(), "-"))
	return cmd, err
}

// patterns say what the words of a command look like.
var patterns = map[string]struct{ pattern, says string }{
	"job": {`^[A-Za-z0-9][A-Za-z0-9._-]{0,100}$`, "The name of a job."},
	"n":   {`^[1-9][0-9]{0,8}$`, "The number of a checkpoint."},
	"a":   {`^[1-9][0-9]{0,8}$`, "The number of the first checkpoint."},
	"b":   {`^[1-9][0-9]{0,8}$`, "The number of the second checkpoint."},
	"app": {`^[a-z][a-z0-9]*(\.[A-Z])?(\.[1-9][0-9]{0,6})?$`, "The application, as NAME.CLASS.NP, or without NP where np has it."},
}

// compiled are the patterns, compiled when a service asks for them.
var compiled = sync.OnceValue(func() map[string]*regexp.Regexp {
	all := map[string]*regexp.Regexp{}
	for name, p := range patterns {
		all[name] = regexp.MustCompile(p.pattern)
	}
	return all
})

// checkWord refuses a word that is no argument of its kind. The name of a file is none.
func checkWord(name, value string) error {
	says := patterns[name].says
	switch name {
	case "job":
		if container.ValidJobName(value) {
			return nil
		}
	case "app":
		family, _, _ := strings.Cut(value, ".")
		for _, known := range dataset.Names() {
			if family == known && compiled()["app"].MatchString(value) {
				return nil
			}
		}
		return ui.BadUsage(fmt.Sprintf("app %.80q: no built-in application has this name", value), "write NAME.CLASS.NP, like bt.B.4; the names are "+strings.Join(dataset.Names(), ", "))
	default:
		if compiled()[name].MatchString(value) {
			return nil
		}
	}
	return ui.BadUsage(fmt.Sprintf("%s %.80q is not valid", name, value), says)
}

// mostRanks bounds the sizes of predicted and launched jobs: memory and time of an answer grow
// with them. mostListed is the bound where the answer lists each rank.
const (
	mostRanks  = 1 << 20
	mostListed = 1 << 16
)

func (o *operation) mostRanks() int64 {
	if s := o.schema(); s == "layout" || s == "predict-plan" {
		return mostListed
	}
	return mostRanks
}

func tooLarge(name, value string, limit int64) error {
	return ui.BadUsage(fmt.Sprintf("%s %.80q is too large for the service", name, value), fmt.Sprintf("give at most %d, or ask ckpt itself", limit))
}

// checkFlag refuses a value of a flag that would name a file, or cost too much.
func (o *operation) checkFlag(f *pflag.Flag, value string) error {
	if f.Name == "on" { // the command takes a file, too
		for _, preset := range ui.ChoicesOf(f) {
			if value == preset {
				return nil
			}
		}
		return ui.BadUsage(fmt.Sprintf("on %.80q: no preset has this name", value), "the presets are "+strings.Join(ui.ChoicesOf(f), ", "))
	}
	limit := int64(0)
	switch f.Name {
	case "np", "nodes", "max-nodes", "aggregators", "ppn", "group-size", "map", "spares", "stripe-count":
		limit = o.mostRanks()
	case "checkpoints", "count", "keep", "keep-hourly", "keep-daily", "last", "top", "restarts", "iterations":
		limit = 1 << 40
	case "runs":
		limit = 10_000
	}
	for part := range strings.SplitSeq(value, ",") {
		var n int64
		if k, err := fmt.Sscan(part, &n); limit > 0 && k == 1 && err == nil && n > limit {
			return tooLarge(f.Name, value, limit)
		}
	}
	return nil
}

// mayHave reports whether a request of the operation may set a flag.
func (o *operation) mayHave(flag string) bool {
	return strings.Contains(" "+o.flags+" ", " "+flag+" ")
}

// parameters are what a request may have beside its path.
func (o *operation) parameters() (list []string) {
	for _, w := range o.words() {
		if !o.inPath(w) {
			list = append(list, w)
		}
	}
	return append(list, strings.Fields(o.flags)...)
}

// arguments makes the command line of a request from its values by name, in the path and beside
// it. The values of a task are parsed here, too, so that it begins with none that its command refuses.
func (s *server) arguments(o *operation, store string, values map[string][]string) ([]string, error) {
	cmd := s.commands[o.id()]
	if o.how != answer {
		var err error
		if cmd, err = o.commandOf(s.tree.New(&ui.Globals{})); err != nil { // which keeps the values
			return nil, err
		}
	}
	line := o.command
	for _, w := range o.words() {
		list := values[w]
		if len(list) != 1 {
			return nil, ui.BadUsage(w+" is missing, or there are several", patterns[w].says)
		}
		if err := checkWord(w, list[0]); err != nil {
			return nil, err
		}
		if np, _ := strconv.ParseInt(list[0][strings.LastIndex(list[0], ".")+1:], 10, 64); w == "app" && np > o.mostRanks() {
			return nil, tooLarge("app", list[0], o.mostRanks())
		}
		line = strings.ReplaceAll(line, "{"+w+"}", list[0])
	}
	args := strings.Fields(line)
	for _, name := range o.parameters() {
		if patterns[name].says != "" {
			continue
		}
		f := cmd.Flags().Lookup(name)
		if list, given := values[name]; given && len(list) != 1 {
			if _, many := f.Value.(pflag.SliceValue); !many {
				return nil, ui.BadUsage(fmt.Sprintf("parameter %s has %d values", name, len(list)), "give one")
			}
		}
		for _, value := range values[name] {
			if err := o.checkFlag(f, value); err != nil {
				return nil, err
			}
			if o.how == answer {
				// the command parses it
			} else if err := cmd.Flags().Set(name, value); err != nil {
				return nil, ui.WithHint(ui.FlagError(cmd, err), f.Usage)
			}
			args = append(args, "--"+name+"="+value)
		}
	}
	for name := range values {
		if !o.inPath(name) && !o.mayHave(name) && patterns[name].says == "" {
			return nil, unknownParameter(name, o.parameters())
		}
		if patterns[name].says != "" && !strings.Contains(o.command, "{"+name+"}") {
			return nil, unknownParameter(name, o.parameters())
		}
	}
	if cmd.Flags().Lookup("store") != nil && store != "" {
		args = append(args, "--store="+store)
	}
	return append(args, "--json"), nil
}

// unknownParameter is the error of a parameter that is not in the list of a request.
func unknownParameter(name string, list []string) error {
	hint := "this request takes no parameters"
	if len(list) > 0 {
		hint = "the parameters are " + strings.Join(list, ", ")
		if near := ui.Nearest(name, list); near != "" {
			hint = "did you mean " + near + "?"
		}
	}
	return ui.BadUsage(fmt.Sprintf("parameter %.80q is unknown", name), hint)
}

// statusOf is the HTTP status of an error of a command.
func statusOf(err error) int {
	switch {
	case errors.Is(err, wire.ErrNotRunning), errors.Is(err, image.ErrJobExists):
		return http.StatusConflict
	case errors.Is(err, os.ErrPermission):
		return http.StatusForbidden
	case errors.Is(err, wire.ErrSilent), errors.As(err, new(*wire.UnreachableError)):
		return http.StatusServiceUnavailable
	}
	switch ui.ExitCode(err) {
	case ui.ExitUsage:
		return http.StatusBadRequest
	case ui.ExitNotFound:
		return http.StatusNotFound
	case ui.ExitInUse, ui.ExitDamage, ui.ExitJobFailed:
		return http.StatusConflict
	case ui.ExitStorageFull:
		return http.StatusInsufficientStorage
	case ui.ExitInterrupted, ui.ExitRequeue:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
