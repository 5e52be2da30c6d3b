package predictions

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
)

// FailingOptions are the flags that say how often the machine of a job fails. They mean the
// same in every command: --mtbf is of the job, --node-mtbf of one of its nodes.
type FailingOptions struct{ MTBF, NodeMTBF string }

// AddFlags adds them; use says in a few words what the command does with them.
func (o *FailingOptions) AddFlags(f *pflag.FlagSet, use string) {
	f.StringVar(&o.MTBF, "mtbf", "", use+"mean time between failures of the job, like 24h")
	f.StringVar(&o.NodeMTBF, "node-mtbf", "", "mean time between failures of one node, in place of --mtbf, like 5y")
}

// Given reports whether the machine fails.
func (o *FailingOptions) Given() bool { return o.MTBF != "" || o.NodeMTBF != "" }

// Job is the mean time between failures of a job on so many nodes, 0 if they are not known.
// It is 0 if no flag says it.
func (o *FailingOptions) Job(nodes int) (time.Duration, error) {
	var q ui.Quantities
	job, node := q.Duration("--mtbf", o.MTBF), q.Duration("--node-mtbf", o.NodeMTBF)
	switch {
	case q.Err != nil:
		return 0, q.Err
	case o.MTBF != "" && o.NodeMTBF != "":
		return 0, ui.BadUsage("--mtbf and --node-mtbf both say how often the machine fails", "give one: --mtbf is of the whole job, --node-mtbf of one node")
	case o.NodeMTBF == "":
		return job, nil
	case nodes < 1:
		return 0, ui.BadUsage("--node-mtbf "+o.NodeMTBF+" is of one node, and the number of nodes is not known", "add --nodes, like --nodes 4, or give the --mtbf of the job")
	}
	return node / time.Duration(nodes), nil
}

// about tells the MTBF of a job, and of its nodes if that was given.
func (o *FailingOptions) about(job time.Duration, nodes int) string {
	if o.NodeMTBF == "" {
		return ui.Span(job)
	}
	var q ui.Quantities
	return fmt.Sprintf("%s (%s of %s each)", ui.Span(job), ui.Count(nodes, "node"), ui.Span(q.Duration("--node-mtbf", o.NodeMTBF)))
}

// explain says that --nodes does not divide --mtbf any more, for a release.
func (o *FailingOptions) explain(g *ui.Globals, nodes int) {
	if o.MTBF != "" && nodes > 1 {
		g.Warn("--mtbf %s is of the whole job, also with --nodes; the MTBF of one node is --node-mtbf %s", o.MTBF, o.MTBF)
	}
}
