package predictions

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/dataset"
	"ckpt/image/nodes"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/plan"
	"ckpt/predict/service"
)

// modeOptions are the flags of ckpt predict plan that compare modes and logs.
type modeOptions struct {
	ui.Placement
	FailingOptions
	modes, logs []string
	interval    string
	staggers    []string
	groupSize   int
}

func (o *modeOptions) addFlags(f *pflag.FlagSet) {
	o.Placement.AddFlags(f)
	o.addModeFlags(f, "compare modes for a failure rate (default with --mtbf: all): ", "logs of messages between groups to compare (default all): ")
	o.FailingOptions.AddFlags(f, "compare modes: ")
	f.StringVar(&o.interval, "interval", "", "time between checkpoints (default the best of each mode)")
}

// addModeFlags adds the flags that say how groups take checkpoints.
func (o *modeOptions) addModeFlags(f *pflag.FlagSet, mode, log string) {
	names, logs := namesOf(service.Modes()), namesOf(service.Uncoordinated.Logs())
	f.StringSliceVar(&o.modes, "mode", nil, mode+strings.Join(names, ", "))
	ui.Choices(f, "mode", names...)
	f.StringSliceVar(&o.logs, "log", nil, log+strings.Join(logs, ", "))
	ui.Choices(f, "log", logs...)
	f.IntVar(&o.groupSize, "group-size", 0, "ranks of a group, with --mode semi (default those of a node)")
	f.StringSliceVar(&o.staggers, "stagger", []string{"spread"}, "how many groups store at once: spread (one), none (all), or a share like 25%; several are compared")
}

func namesOf[S ~string](list []S) (names []string) {
	for _, s := range list {
		names = append(names, string(s))
	}
	return names
}

// given reports whether modes are compared, and not mappings.
func (o *modeOptions) given() bool { return o.FailingOptions.Given() || len(o.modes) > 0 }

// groups reads how groups take checkpoints.
func (o *modeOptions) groups(p *plan.Planning) (err error) {
	if p.Modes, err = chosen(o.modes, service.Modes(), "mode", "coordinated, semi or uncoordinated"); err != nil {
		return err
	}
	if p.Modes == nil {
		p.Modes = service.Modes()
	}
	if p.Logs, err = chosen(o.logs, service.Uncoordinated.Logs(), "log", "pessimistic-receiver, pessimistic-sender, optimistic or none"); err != nil {
		return err
	}
	p.GroupSize = o.groupSize
	for _, stagger := range o.staggers {
		together := 0.0
		switch stagger {
		case "spread":
		case "none":
			together = 1
		default:
			if together, err = ui.ParseShare("--stagger", stagger); err != nil {
				return err
			}
		}
		p.Together = append(p.Together, together)
	}
	return nil
}

// chosen reads names of known things.
func chosen[S ~string](names []string, known []S, flag, choices string) (list []S, err error) {
	for _, name := range names {
		if !slices.Contains(known, S(name)) {
			return nil, ui.BadUsage(fmt.Sprintf("--%s %q is unknown", flag, name), "choose "+choices)
		}
		list = append(list, S(name))
	}
	return list, nil
}

// failing reads the flags of a machine that fails. Its options have one mapping, library and
// codec, unless several are given.
func (o *planOptions) failing(f *pflag.FlagSet, m *predict.Model, p *plan.Planning) (err error) {
	if name := changed(f, "runs", "checkpoints", "minimize", "max-nodes"); name != "" {
		return ui.BadUsage("--"+name+": on a machine that fails the expected time of one run is compared", "leave it out, or --mtbf")
	}
	if name := changed(f, "capacity", "keep", "top"); name != "" && o.levelRates.given() {
		return ui.BadUsage("--"+name+" and --local-rate exclude each other: levels reclaim what they need no more", "leave one of the two out")
	}
	if o.async > 0 && o.levelRates.given() {
		return ui.BadUsage("--async and --local-rate both say where checkpoints wait until they are safe", "leave one of them out")
	}
	if !f.Changed("mpi") {
		p.MPI = []string{m.UsualMPI(p.App)}
	}
	switch {
	case f.Changed("codec"):
	case p.Engine != dataset.Ckpt:
		p.Codecs = []string{"none"}
	default:
		p.Codecs = []string{""} // as measured jobs had
	}
	if o.levelRates.given() && len(p.MPI)*max(1, len(p.Codecs))*max(1, len(p.Aggregators))*max(1, len(p.BuffersMiB)) > 1 {
		return ui.BadUsage("--local-rate compares levels of storage for one library, codec and buffer", "give one value of --mpi, --codec, --aggregators and --buffers")
	}
	if err := o.mapping(p); err != nil {
		return err
	}
	if err := o.groups(p); err != nil {
		return err
	}
	if len(o.modes) == 0 && o.onlyTogether(m, p) != "" {
		p.Modes = []service.Mode{service.Coordinated}
	}
	if !o.FailingOptions.Given() {
		return ui.Missing("--mtbf", "24h")
	}
	count := o.modeOptions.Placement.Count()
	if p.Mapping == nil {
		count = 1 // more nodes fail more often
	}
	mtbf, err := o.Job(count)
	if err != nil {
		return err
	}
	if p.Mapping == nil && o.NodeMTBF != "" {
		p.NodeMTBFS = mtbf.Seconds()
	}
	p.Keep = o.keep
	var q ui.Quantities
	p.MTBFS, p.IntervalS = mtbf.Seconds(), q.Duration("--interval", o.interval).Seconds()
	if q.Err == nil && o.levelRates.given() {
		p.Levels, err = o.levelRates.levels(f, p)
		return err
	}
	return q.Err
}

// onlyTogether says why modes of groups are left out of a comparison, "" if they are not.
func (o *planOptions) onlyTogether(m *predict.Model, p *plan.Planning) string {
	counted := slices.ContainsFunc(m.Exchanges, func(e service.Exchange) bool { return e.App == p.App.Name && e.NP == p.App.NP })
	if inst := p.App.Instance(); counted || inst != nil && (len(inst.Messages) > 0 || !inst.Workload.IsProgram()) {
		return ""
	}
	return fmt.Sprintf("the messages of %s are not known: its workload file may have them, or ckpt sdk pmpi counts them", p.App)
}

// mapping reads --nodes, --map or --ppn.
func (o *planOptions) mapping(p *plan.Planning) error {
	place := &o.modeOptions.Placement
	switch {
	case place.Given() && len(p.PPN) > 0:
		return ui.BadUsage("--nodes or --map, and --ppn: each says alone where the ranks are", "give one of them")
	case len(p.PPN) > 1 && o.levelRates.given():
		return ui.BadUsage("--local-rate compares levels of storage for one mapping", "give one value of --ppn")
	case len(p.PPN) > 1:
		return nil
	case len(p.PPN) == 1 && p.PPN[0] > 0:
		place.Nodes = (p.App.NP + p.PPN[0] - 1) / p.PPN[0]
	}
	m, err := place.Resolve(p.App.NP)
	p.Mapping = slices.Clone([]int(m))
	return err
}

// outOfRange drops the error of a job that never ends: it is a result here.
func outOfRange(err error) error {
	if errors.As(err, new(*interval.RangeError)) {
		return nil
	}
	return err
}

// modePlan is a comparison of modes as --json prints it.
type modePlan struct {
	App     string         `json:"app"`
	Mapping []int          `json:"mapping"`
	Engine  dataset.Engine `json:"engine"`
	MTBF    float64        `json:"mtbf_s"`
	AppS    float64        `json:"app_s"`
	Options []plan.Option  `json:"mode_options"`
}

func printModes(g *ui.Globals, r *modePlan, staggers []string) error {
	if !g.Quiet {
		explainEngine(g, r.Engine, "")
		g.Printf("%s on nodes %s, work %s, a failure every %s\n", r.App, ranksOfNodes(r.Mapping), spanOf(r.AppS), spanOf(r.MTBF))
	}
	kind := ofModes
	if len(staggers) > 1 {
		kind |= ofStaggers
	}
	for i := range r.Options {
		o, first := &r.Options[i], &r.Options[0]
		if !slices.Equal(o.Mapping, first.Mapping) || o.MPI != first.MPI || o.Codec != first.Codec || o.Aggregators != first.Aggregators {
			kind |= ofSeveral
		}
		if !o.Fits {
			kind |= ofStores
		}
	}
	if err := printOptions(g, kind, r.Options); err != nil || g.Quiet {
		return err
	}
	return g.Printf("\n%s", explainModes(r.Options))
}

// explainModes says how sure the comparison is, and what it assumes.
func explainModes(options []plan.Option) string {
	var text strings.Builder
	best := options[0]
	domino, near := false, 0
	for _, o := range options {
		domino = domino || o.Domino
		if !o.Best && o.Failing.Low < best.Failing.High {
			near++
		}
	}
	if best.Best {
		text.WriteString(ends(modeName(best.Mode, best.Log), best.Failing))
	} else {
		text.WriteString(map[bool]string{true: "no mode is expected to end: failures come faster than checkpoints\n", false: "nothing fits: enlarge the store\n"}[best.Fits])
	}
	if best.Best && near > 0 {
		fmt.Fprintf(&text, "  %d of the others may be as fast: their ranges overlap\n", near)
	}
	if domino {
		text.WriteString("without a log the domino effect may take the job back to its beginning; the row says so\n")
	}
	var seen []string
	for _, o := range options {
		for _, a := range o.Assumes {
			if !slices.Contains(seen, a) {
				seen = append(seen, a)
				text.WriteString("assumed: " + a + "\n")
			}
		}
	}
	return text.String()
}

// ends tells when the best option ends.
func ends(name string, f *plan.Failing) string {
	if isNever(f.High) {
		return fmt.Sprintf("* %s ends after %s, and not before %s; with the highest costs of its range it never ends\n"+
			"  failures then come faster than checkpoints: narrow the costs by a run of yours (ckpt predict fit)\n", name, spanOf(float64(f.Expected)), spanOf(float64(f.Low)))
	}
	text := fmt.Sprintf("* %s ends after %s, between %s and %s\n", name, spanOf(float64(f.Expected)), spanOf(float64(f.Low)), spanOf(float64(f.High)))
	if s := f.Simulated; s != nil {
		text += fmt.Sprintf("  simulated: the mean of %d runs, of which 90 of 100 take %s to %s\n", s.Runs, spanOf(s.P5), spanOf(s.P95))
	}
	return text
}

func modeName(m service.Mode, l service.Log) string {
	name := string(m)
	if l != service.NoGroups {
		name += " " + string(l)
	}
	return strings.NewReplacer("uncoordinated", "uncoord.", "pessimistic-", "").Replace(name)
}

func ranksOfNodes(mapping []int) string {
	var out []string
	for _, n := range mapping {
		out = append(out, strconv.Itoa(n))
	}
	if len(out) > 8 {
		return fmt.Sprintf("%s,… (%d nodes)", strings.Join(out[:8], ","), len(out))
	}
	return strings.Join(out, ",")
}

func never(v plan.Finite, format func(float64) string) string {
	if isNever(v) {
		return "never"
	}
	return format(float64(v))
}

func isNever(v plan.Finite) bool { return float64(v) > time.Duration(math.MaxInt64).Seconds() }

// levelRates are the flags of ckpt predict plan for checkpoints on the nodes.
type levelRates struct {
	local, store, network, share, protect, slowdown string
}

func (o *levelRates) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.local, "local-rate", "", "with --mtbf: compare checkpoints on the nodes, whose storage writes as fast, with a plain store, like 2GiB/s")
	f.StringVar(&o.store, "store-rate", "", "rate of the store, for all nodes together, like 200MiB/s (default with --on: simulated)")
	f.StringVar(&o.network, "network-rate", "", "rate between nodes, of one of them (default: it delays nothing)")
	f.StringVar(&o.share, "share-local", "", "share of the failures that checkpoints on the nodes survive, like 85%")
	f.StringVar(&o.protect, "protect", "none", "what survives a lost node: none, partner[:K], xor:N or rs:K+M")
	f.StringVar(&o.slowdown, "drain-slowdown", "0%", "speed that the job loses while a checkpoint is copied into the store")
}

func (o *levelRates) given() bool { return o.local != "" }

// levels reads the flags about levels.
func (o *levelRates) levels(f *pflag.FlagSet, p *plan.Planning) (*plan.Levels, error) {
	switch name := changed(f, "log", "group-size", "stagger"); {
	case name != "" && !f.Changed("mode"):
		return nil, ui.BadUsage("--"+name+" and --local-rate, without --mode: levels are compared for a coordinated job", "add --mode semi or --mode uncoordinated")
	case !f.Changed("mode"):
		p.Modes = []service.Mode{service.Coordinated}
	case len(p.Together) > 1:
		return nil, ui.BadUsage("--local-rate compares levels of storage for one stagger", "give one value of --stagger")
	}
	switch {
	case o.store == "" && p.Storage == nil:
		return nil, ui.Missing("--store-rate", "200MiB/s")
	case o.share == "":
		return nil, ui.Missing("--share-local", "85%")
	}
	scheme, err := schemeOf(o.protect, len(p.Mapping))
	if err != nil {
		return nil, err
	}
	var q ui.Quantities
	l := &plan.Levels{LocalMiBPerS: float64(q.Rate("--local-rate", o.local)) / mebi, StoreMiBPerS: float64(q.Rate("--store-rate", o.store)) / mebi,
		NetworkMiBPerS: float64(q.Rate("--network-rate", o.network)) / mebi, Slowdown: q.Share("--drain-slowdown", o.slowdown),
		Redundancy: redundancyOf(scheme), Share: q.Share("--share-local", o.share), Slots: nodes.Slots}
	if q.Err == nil && !(l.Share > 0 && l.Share < 1) {
		return nil, badShare(o.share)
	}
	return l, q.Err
}

func badShare(text string) error {
	return ui.BadUsage("--share-local "+text+": must be over 0 and below 1", "give the share of the failures that checkpoints on the nodes survive, like 85%")
}

// schemeOf reads how redundancy is made on so many nodes.
func schemeOf(protect string, count int) (nodes.Scheme, error) {
	scheme, err := nodes.Parse(protect)
	if err != nil {
		return scheme, ui.BadUsage("--protect "+protect+": want none, partner, partner:K, xor:N or rs:K+M", "--protect partner keeps a copy on another node")
	}
	if err := scheme.Check(count); err != nil {
		return scheme, ui.BadUsage(fmt.Sprintf("--protect %s: %v", protect, err), fmt.Sprintf("spread the ranks over more nodes, like --nodes %d", scheme.Nodes()))
	}
	return scheme, nil
}

// redundancyOf is how many bytes a scheme keeps for each byte.
func redundancyOf(s nodes.Scheme) float64 {
	return float64(s.Strength()) / float64(s.Nodes()-s.Strength())
}

// levelPlan is a comparison of checkpoints on the nodes with a plain store, as --json
// prints it.
type levelPlan struct {
	App     string              `json:"app"`
	Mapping []int               `json:"mapping"`
	MTBF    float64             `json:"mtbf_s"`
	AppS    float64             `json:"app_s"`
	Engine  dataset.Engine      `json:"engine"`
	Protect string              `json:"protection"`
	All     predict.MiB         `json:"checkpoint_image_bytes"`
	Node    predict.MiB         `json:"node_image_bytes"`
	Extra   predict.MiB         `json:"node_redundancy_bytes"`
	Levels  []interval.LevelRow `json:"storage_level_list"`
	Options []plan.Option       `json:"tier_option_list"`
	Assumed []string            `json:"assumption_list"`
	Flags   []string            `json:"launch_flags"` // of the best option; none for a plain store
}

func showLevelPlan(g *ui.Globals, p *plan.Planning, options []plan.Option, protection string) error {
	best := &options[max(0, slices.IndexFunc(options, func(o plan.Option) bool { return o.Best }))]
	c := &best.LevelCosts
	r := &levelPlan{App: p.App.String(), Mapping: p.Mapping, MTBF: p.MTBFS, AppS: p.AppSeconds, Engine: cmp.Or(p.Engine, dataset.DMTCP), Protect: protection, All: predict.MiB(c.AllMiB.Value),
		Node: predict.MiB(c.NodeMiB.Value), Extra: predict.MiB(c.NodeMiB.Value * p.Levels.Redundancy), Levels: p.Hierarchy(c).Rows(),
		Options: options, Assumed: append([]string{}, c.Assumed...), Flags: []string{}}
	if best.Best && len(best.Pattern.Levels) > 1 {
		r.Flags = append([]string{"--local", "/nvme/{node}", "--protect", protection}, launchFlags(best.Pattern.Levels)...)
		if best.Groups != nil {
			r.Flags = append(r.Flags, "--mode", string(best.Mode), "--log", string(best.Log))
		}
	}
	return g.Show(r, func() error { return printLevelPlan(g, r, c) })
}

func printLevelPlan(g *ui.Globals, r *levelPlan, c *plan.LevelCosts) error {
	if !g.Quiet {
		explainEngine(g, r.Engine, "")
		extra := ""
		if r.Extra > 0 {
			extra = fmt.Sprintf(", and %s of redundancy (%s)", size(r.Extra), r.Protect)
		}
		g.Printf("%s on nodes %s, work %s, a failure every %s\na checkpoint has %s, a node up to %s%s\n", r.App, ranksOfNodes(r.Mapping), spanOf(r.AppS), spanOf(r.MTBF),
			size(r.All), size(r.Node), extra)
		g.Printf("on the nodes %s, restart %s, survives %s of the failures\ndrain %s, restart %s; plain store %s\n\n", ui.Seconds(c.LocalS.Value),
			ui.Seconds(c.LocalRestartS.Value), ui.Percent(r.Levels[0].Share), ui.Seconds(c.DrainS.Value), ui.Seconds(c.StoreRestartS.Value),
			ui.Seconds(c.StoreS.Value))
	}
	if err := printOptions(g, ofLevels, r.Options); err != nil || g.Quiet {
		return err
	}
	return g.Printf("\n%s", explainLevels(r))
}

// levelName names a pattern, with the mode of a job of several groups.
func levelName(o *plan.Option) string {
	if o.Groups == nil {
		return o.Pattern.Name
	}
	return modeName(o.Mode, o.Log) + ": " + o.Pattern.Name
}

// explainLevels says how sure the comparison is, and what it assumes.
func explainLevels(r *levelPlan) string {
	var text strings.Builder
	ended := false
	for i := range r.Options {
		o := &r.Options[i]
		if !o.Best {
			continue
		}
		ended = true
		text.WriteString(ends(levelName(o), o.Failing))
		for k := range r.Options {
			if other := &r.Options[k]; k != i && other.Failing.Low < o.Failing.High && o.Failing.High.Ends() {
				fmt.Fprintf(&text, "  %s may be as fast: the ranges overlap\n", levelName(other))
			}
		}
	}
	if !ended {
		text.WriteString("the job is not expected to end: failures come faster than checkpoints\n")
	}
	if len(r.Flags) > 0 {
		text.WriteString("as flags of ckpt launch: " + strings.Join(r.Flags, " ") + "\n")
	}
	for _, a := range r.Assumed {
		text.WriteString("assumed: " + a + "\n")
	}
	return text.String()
}

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
