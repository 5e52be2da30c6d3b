package predictions

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/modes"
	"ckpt/predict/plan"
)

// modeOptions are the flags of ckpt predict plan that compare modes and logs.
type modeOptions struct {
	ui.Placement
	modes, logs             []string
	mtbf, stagger, interval string
	groupSize               int
}

func (o *modeOptions) addFlags(f *pflag.FlagSet) {
	o.Placement.AddFlags(f)
	o.addModeFlags(f, "compare modes for a failure rate (default with --mtbf: all): ", "logs of messages between groups to compare (default all): ")
	f.StringVar(&o.mtbf, "mtbf", "", "compare modes: mean time between failures of the job")
	f.StringVar(&o.interval, "interval", "", "time between checkpoints (default the best of each mode)")
}

// addModeFlags adds the flags that say how groups take checkpoints.
func (o *modeOptions) addModeFlags(f *pflag.FlagSet, mode, log string) {
	var names, logs []string
	for _, m := range modes.Modes() {
		names = append(names, string(m))
	}
	for _, l := range modes.Uncoordinated.Logs() {
		logs = append(logs, string(l))
	}
	f.StringSliceVar(&o.modes, "mode", nil, mode+strings.Join(names, ", "))
	ui.Choices(f, "mode", names...)
	f.StringSliceVar(&o.logs, "log", nil, log+strings.Join(logs, ", "))
	ui.Choices(f, "log", logs...)
	f.IntVar(&o.groupSize, "group-size", 0, "ranks of a group, with --mode semi (default those of a node)")
	f.StringVar(&o.stagger, "stagger", "spread", "how many groups store at once: spread (one), none (all), or a share like 25%")
}

// given reports whether modes are compared, and not mappings.
func (o *modeOptions) given() bool { return o.mtbf != "" || len(o.modes) > 0 }

// planning adds the flags to those of a plan.
func (o *modeOptions) planning(cmd *cobra.Command, p *plan.Planning) (plan.ModePlanning, error) {
	out := plan.ModePlanning{AppS: p.AppSeconds, Probe: p.Probe, GroupSize: o.groupSize, Codec: "none"}
	out.App, out.IO, out.Law, out.MPI = p.App, p.IO, p.Law, "mpich"
	for _, name := range []string{"runs", "checkpoints", "minimize", "max-nodes", "keep", "capacity", "buffers", "top"} {
		if cmd.Flags().Changed(name) {
			return out, ui.BadUsage("--"+name+" compares mappings and codecs, and --mtbf modes", "leave one of the two out")
		}
	}
	var err error
	if out.MPI, err = one(cmd, "mpi", p.MPI, "mpich"); err != nil {
		return out, err
	}
	if out.Codec, err = one(cmd, "codec", p.Codecs, "none"); err != nil {
		return out, err
	}
	if out.Mapping, err = o.mapping(p); err != nil {
		return out, err
	}
	if len(p.Aggregators) > 1 {
		return out, ui.BadUsage("--aggregators has several values, and modes are compared for one", "give one of them")
	}
	if len(p.Aggregators) == 1 {
		out.Aggregators = p.Aggregators[0]
	}
	if out.Modes, out.Logs, err = o.parse(); err != nil {
		return out, err
	}
	if o.mtbf == "" {
		return out, ui.Missing("--mtbf", "24h")
	}
	var q ui.Quantities
	out.MTBFS, out.IntervalS = q.Duration("--mtbf", o.mtbf).Seconds(), q.Duration("--interval", o.interval).Seconds()
	if q.Err != nil {
		return out, q.Err
	}
	out.Together, err = o.together()
	return out, err
}

// together reads which share of the groups stores at once.
func (o *modeOptions) together() (float64, error) {
	switch o.stagger {
	case "spread":
		return 0, nil
	case "none":
		return 1, nil
	}
	var q ui.Quantities
	return q.Share("--stagger", o.stagger), q.Err
}

// modeFlagsUnused refuses flags that only a comparison of modes reads.
func (o *modeOptions) modeFlagsUnused(cmd *cobra.Command) error {
	for _, name := range []string{"log", "group-size", "stagger", "interval", "map"} {
		if cmd.Flags().Changed(name) {
			return ui.BadUsage("--"+name+" belongs to a comparison of modes", "add --mtbf, like --mtbf 24h")
		}
	}
	return nil
}

// one is the single value of a flag that may have several.
func one(cmd *cobra.Command, name string, values []string, otherwise string) (string, error) {
	if !cmd.Flags().Changed(name) {
		return otherwise, nil
	}
	if len(values) != 1 {
		return "", ui.BadUsage("--"+name+" has several values, and modes are compared for one", "give one of them, like --"+name+" "+otherwise)
	}
	return values[0], nil
}

// mapping is that of --nodes, --map or --ppn.
func (o *modeOptions) mapping(p *plan.Planning) ([]int, error) {
	switch {
	case o.Given() && len(p.PPN) > 0, len(p.PPN) > 1:
		return nil, ui.BadUsage("modes are compared for one mapping", "give one of --nodes, --map and --ppn, and one value")
	case len(p.PPN) == 1 && p.PPN[0] > 0:
		o.Nodes = (p.App.NP + p.PPN[0] - 1) / p.PPN[0]
	}
	m, err := o.Resolve(p.App.NP)
	return slices.Clone([]int(m)), err
}

// parse reads the names of modes and logs.
func (o *modeOptions) parse() ([]modes.Mode, []modes.Log, error) {
	list := modes.Modes()
	if len(o.modes) > 0 {
		list = nil
	}
	for _, name := range o.modes {
		if !slices.Contains(modes.Modes(), modes.Mode(name)) {
			return nil, nil, ui.BadUsage(fmt.Sprintf("--mode %q is unknown", name), "choose coordinated, semi or uncoordinated")
		}
		list = append(list, modes.Mode(name))
	}
	var logs []modes.Log
	for _, name := range o.logs {
		if !slices.Contains(modes.Uncoordinated.Logs(), modes.Log(name)) {
			return nil, nil, ui.BadUsage(fmt.Sprintf("--log %q is unknown", name), "choose pessimistic-receiver, pessimistic-sender, optimistic or none")
		}
		logs = append(logs, modes.Log(name))
	}
	return list, logs, nil
}

// outOfRange drops the error of a job that never ends: it is a result here.
func outOfRange(err error) error {
	if errors.As(err, new(*interval.RangeError)) {
		return nil
	}
	return err
}

// modePlanResult is a comparison as --json prints it.
type modePlanResult struct {
	App     string         `json:"app"`
	Mapping []int          `json:"mapping"`
	MTBF    float64        `json:"mtbf_s"`
	AppS    float64        `json:"app_s"`
	Options []modeOptionJS `json:"mode_options"`
}

// modeOptionJS is a predict.ModeOption.
type modeOptionJS struct {
	Mode       string   `json:"mode"`
	Log        string   `json:"log"`
	Groups     int      `json:"group_count"`
	GroupRanks int      `json:"group_ranks"`
	GroupS     float64  `json:"group_checkpoint_s"`
	Cost       float64  `json:"cost_s"`
	CostLow    float64  `json:"low_s"`
	CostHigh   float64  `json:"high_s"`
	Stored     int64    `json:"stored_bytes"`
	Interval   float64  `json:"interval_s"`
	Count      int      `json:"count"`
	LogBytes   int64    `json:"log_bytes"`
	KeptBytes  int64    `json:"kept_log_bytes"`
	PerIter    float64  `json:"iteration_log_bytes"`
	LogS       float64  `json:"log_wait_s"`
	LogLow     float64  `json:"log_wait_low_s"`
	LogHigh    float64  `json:"log_wait_high_s"`
	Restart    float64  `json:"restart_s"`
	RestartLow float64  `json:"restart_low_s"`
	RestartHi  float64  `json:"restart_high_s"`
	Ranks      int      `json:"ranks"`
	Lost       float64  `json:"lost_s"`
	Domino     bool     `json:"unbounded"`
	Total      *float64 `json:"expected_total_s"` // null if the run never ends
	Low        *float64 `json:"expected_low_s"`
	High       *float64 `json:"expected_high_s"`
	Best       bool     `json:"best"`
	Assumed    []string `json:"assumption_list"`
}

func modesJSON(p *plan.ModePlanning, options []plan.ModeOption) modePlanResult {
	r := modePlanResult{App: p.App.String(), Mapping: p.Mapping, MTBF: p.MTBFS, AppS: p.AppS, Options: []modeOptionJS{}}
	for _, o := range options {
		r.Options = append(r.Options, modeOptionJS{Mode: string(o.Mode), Log: string(o.Log), Groups: o.GroupCount, GroupRanks: o.GroupRanks,
			GroupS: o.GroupS.Value, Cost: o.AllS.Value, CostLow: o.AllS.Low, CostHigh: o.AllS.High, Stored: bytesOf(o.StoredMiB),
			Interval: o.IntervalS, Count: o.Count, LogBytes: bytesOf(o.LogMiB), KeptBytes: bytesOf(o.KeptMiBPerS * o.IntervalS),
			PerIter: o.Logged.Bytes, LogS: o.LogS.Value, LogLow: o.LogS.Low, LogHigh: o.LogS.High,
			Restart: o.FailS.Value, RestartLow: o.FailS.Low, RestartHi: o.FailS.High, Ranks: o.RestartRanks, Lost: o.LostS.Value,
			Domino: o.Domino, Total: finite(o.TotalS.Value), Low: finite(o.TotalS.Low), High: finite(o.TotalS.High), Best: o.Best,
			Assumed: append([]string{}, o.Assumed...)})
	}
	return r
}

func finite(v float64) *float64 {
	if math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func runPlanModes(cmd *cobra.Command, g *ui.Globals, o *planOptions, m *predict.Model, p *plan.Planning) error {
	mp, err := o.modeOptions.planning(cmd, p)
	if err != nil {
		return err
	}
	if mp.Engine, mp.Storing = p.Engine, p.Storing; cmd.Flags().Changed("codec") {
		mp.Storing.Codec = mp.Codec
	}
	mp.Overhead = p.Overhead
	options, err := plan.Modes(m, mp)
	if err != nil {
		return err
	}
	return g.Show(modesJSON(&mp, options), func() error { return printModes(g, &mp, options) })
}

func printModes(g *ui.Globals, p *plan.ModePlanning, options []plan.ModeOption) error {
	if !g.Quiet {
		g.Printf("%s on nodes %s, work %s, a failure every %s\n", p.App, ranksOfNodes(p.Mapping), spanOf(p.AppS), spanOf(p.MTBFS))
	}
	var rows [][]string
	for _, o := range options {
		total := never(o.TotalS.Value, short)
		if o.Best {
			total += " *"
		}
		log := short(o.LogMiB)
		if o.Log == modes.Sender && o.Logged.Kept > 0 {
			log = "kept " + short(o.KeptMiBPerS*o.IntervalS)
		}
		rows = append(rows, []string{modeName(o.Mode, o.Log), short(o.AllS.Value), short(o.IntervalS), log, short(o.LogS.Value),
			short(o.FailS.Value), short(o.LostS.Value), total})
	}
	if err := g.Table([]string{"mode, log", "|ckpt s", "|every s", "|log MiB", "|log s", "|restart s", "|lost s", "|total s"}, rows); err != nil || g.Quiet {
		return err
	}
	return g.Printf("\n%s", explainModes(options))
}

// explainModes says how sure the comparison is, and what it assumes.
func explainModes(options []plan.ModeOption) string {
	var text strings.Builder
	best := options[0]
	domino, near := false, 0
	for _, o := range options {
		domino = domino || o.Domino
		if !o.Best && o.TotalS.Low < best.TotalS.High {
			near++
		}
	}
	if best.Best {
		fmt.Fprintf(&text, "* %s ends after %s, between %s and %s\n", modeName(best.Mode, best.Log), never(best.TotalS.Value, spanOf), never(best.TotalS.Low, spanOf), never(best.TotalS.High, spanOf))
	} else {
		text.WriteString("no mode is expected to end: failures come faster than checkpoints\n")
	}
	if best.Best && near > 0 {
		fmt.Fprintf(&text, "  %d of the others may be as fast: their ranges overlap\n", near)
	}
	if domino {
		text.WriteString("without a log the domino effect may take the job back to its beginning; the row says so\n")
	}
	var seen []string
	for _, o := range options {
		for _, a := range o.Assumed {
			if !slices.Contains(seen, a) {
				seen = append(seen, a)
				text.WriteString("assumed: " + a + "\n")
			}
		}
	}
	return text.String()
}

func modeName(m modes.Mode, l modes.Log) string {
	name := string(m)
	if l != modes.NoGroups {
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

// short has three digits or more.
func short(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func never(v float64, format func(float64) string) string {
	if v > time.Duration(math.MaxInt64).Seconds() {
		return "never"
	}
	return format(v)
}
