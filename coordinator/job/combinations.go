package job

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ckpt/coordinator/protocol/channel"
	"ckpt/image/plan"
	"ckpt/internal/wording"
)

// A Combination is a row of the table of settings that make no sense together. Each refusal of two
// or more settings is one of these rows.
type Combination struct {
	Terms           []Term // what holds at once, like groups=several keep
	Because, Remedy string
	Counted         bool // numbers decide: the place that compares them tells [Clash]
	read            []condition
}

// A Term is NAME[|NAME…][=VALUE[|VALUE…]]: one of these settings was given, or has one of these
// values; with ! before it, none was and has. Beside settings of users there are
//
//	ranks=simulated|program|dmtcp   who runs the ranks
//	groups=one|several              how many groups of ranks take checkpoints apart from each other
//	every-n                         {every} as a number of iterations
//	async-several                   {async} with a number of 2 or more
//	objective-pause                 {objective} pause, not as the usual one
//	drain-less                      {drain} every=N or none
//	from-launcher                   nodes-from-launcher, not as false
//	other-map, other-np             a restart on another mapping, or number of ranks
//	command                         of a restart
//	logs=none                       no messages are logged
//	fail-node, fail-lose-local      what a failure says
type Term string

// A Lookup tells the value of a setting, which may be the usual one, and whether it was given.
type Lookup func(name string) (value string, given bool)

// Keys of rows that the place which knows the numbers, or the failures, compares.
const (
	ClashCount    = "count iterations"
	ClashGroup    = "group-size np"
	ClashMapping  = "nodes|map np"
	ClashApp      = "ranks=simulated np"
	ClashEpoch    = "ranks=simulated every"
	ClashRank     = "fail np"
	ClashNode     = "fail nodes"
	ClashIter     = "fail iterations"
	ClashProtect  = "local protect nodes"
	ClashWriters  = "layout aggregators np"
	ClashBuffer   = "layout buffer stripe-size"
	ClashStore    = "local store"
	ClashLost     = "fail-lose-local !local"
	ClashBoundary = "ranks=dmtcp fail-iter"
	ClashArrays   = "ranks=simulated|program other-np"
	ClashCommand  = "ranks=program other-np !command"
	ClashMessages = "checkpoint other-np"
	ClashCut      = "mode=semi|uncoordinated checkpoint other-np|other-map"
)

// Combinations returns the table, which no caller changes. It is made once: a description is checked
// whenever it is read, and an index of a store reads thousands.
var Combinations = sync.OnceValue(combinations)

func combinations() []Combination {
	var table []Combination
	row := func(terms, because, remedy string) {
		c := Combination{Because: because, Remedy: remedy}
		for _, t := range strings.Fields(terms) {
			c.Terms, c.read = append(c.Terms, Term(t)), append(c.read, Term(t).parts())
		}
		table = append(table, c)
	}
	ofProgram(row)
	ofDMTCP(row)
	ofGroups(row)
	ofStorage(row)
	declared := len(table)
	ofNumbers(row)
	for i := range table[declared:] {
		table[declared+i].Counted = true
	}
	return table
}

// A CombinationError says which row of the table a request meets.
type CombinationError struct {
	*UsageError
	Row Combination
}

func (e *CombinationError) Unwrap() error { return e.UsageError }

// CheckCombinations refuses the first row of the table whose terms all hold.
func CheckCombinations(of Lookup) error {
	for _, c := range Combinations() {
		if c.Counted {
			continue
		}
		if text, holds := c.holds(of); holds {
			return &CombinationError{&UsageError{text + ": " + c.Because, c.Remedy}, c}
		}
	}
	return nil
}

// Clash refuses what numbers decide, with the row of a key. Detail says which numbers.
func Clash(key, detail, fix string) error {
	for _, c := range Combinations() {
		if c.Key() == key {
			return &CombinationError{&UsageError{detail + ": " + c.Because, cmp.Or(fix, c.Remedy)}, c}
		}
	}
	return &UsageError{detail, fix}
}

// Key names a row.
func (c *Combination) Key() string {
	words := make([]string, len(c.Terms))
	for i, t := range c.Terms {
		words[i] = string(t)
	}
	return strings.Join(words, " ")
}

// Labels are the terms as users know them.
func (c *Combination) Labels() []string {
	var labels []string
	for _, t := range c.Terms {
		is := t.parts()
		names, values, absent := is.names, is.values, is.absent
		var words []string
		for _, name := range names {
			words = append(words, label(name, strings.Join(values, " or ")))
		}
		text := strings.Join(words, ", ")
		if absent {
			text = "without " + text
		}
		labels = append(labels, text)
	}
	return labels
}

// Holds reports whether all terms hold.
func (c *Combination) Holds(of Lookup) bool {
	_, holds := c.holds(of)
	return holds
}

// holds reports whether all terms hold, and names what was given.
func (c *Combination) holds(of Lookup) (text string, holds bool) {
	for i := range c.read {
		if _, _, is := c.read[i].holds(of); !is {
			return "", false
		}
	}
	var with, without []string
	for i := range c.read {
		name, value, _ := c.read[i].holds(of)
		if c.read[i].absent {
			without = append(without, label(name, value))
		} else {
			with = append(with, label(name, value))
		}
	}
	text = strings.Join(with, " with ")
	if len(without) > 0 {
		text += " without " + strings.Join(without, " or ")
	}
	return text, true
}

// A condition is a term that has been read.
type condition struct {
	names, values []string
	absent        bool
}

func (t Term) parts() (c condition) {
	rest, absent := strings.CutPrefix(string(t), "!")
	name, value, valued := strings.Cut(rest, "=")
	if valued {
		c.values = strings.Split(value, "|")
	}
	c.names, c.absent = strings.Split(name, "|"), absent
	return c
}

// holds reports whether a condition holds, and names the setting that makes it so.
func (c *condition) holds(of Lookup) (name, value string, holds bool) {
	for _, name := range c.names {
		value, given := of(name)
		if is := given && c.values == nil || slices.Contains(c.values, value); is {
			return name, value, !c.absent
		}
	}
	if c.absent {
		return c.names[0], strings.Join(c.values, " or "), true
	}
	return "", "", false
}

// spoken are the words for settings, or values of them, that no flag has the name of.
func spoken() map[string]string {
	return map[string]string{
		"ranks=simulated": "a simulated job", "ranks=program": "a program", "ranks=dmtcp": wording.Sprintf("{engine} dmtcp"),
		"groups=several": "several groups of ranks", "groups=one": "one group of ranks", "logs=none": "a job without message logs",
		"other-map": "another mapping", "command": "a command", "objective-pause": wording.Sprintf("{objective} pause"),
		"fail-iter": wording.Sprintf("{fail} rank=R@iter=I"), "fail-node": wording.Sprintf("{fail} node=K"), "fail-lose-local": wording.Sprintf("{fail} lose-local"),
	}
}

// flagOf are the flags behind settings of other names.
var flagOf = map[string]string{"every-n": "every", "from-launcher": "nodes-from-launcher", "other-np": "np", "drain-less": "drain"}

// label names a setting with a value, or without.
func label(name, value string) string {
	words := spoken()
	if text := cmp.Or(words[name+"="+value], words[name]); text != "" {
		return text
	}
	switch name {
	case "ranks":
		return strings.NewReplacer("simulated", "a simulated job", "program", "a program", "dmtcp", "a program under DMTCP").Replace(value)
	case "async-several":
		return wording.Sprintf("{async}=%s", cmp.Or(value, "N"))
	case "drain-less":
		value = cmp.Or(value, "every=N or none")
	}
	name = cmp.Or(flagOf[name], name)
	if value == "" || value == "true" {
		return wording.Sprintf("{" + name + "}")
	}
	return wording.Sprintf("{"+name+"} %s", value)
}

func ofProgram(row func(terms, because, remedy string)) {
	const program = "ranks=program|dmtcp "
	row(program+"np|launcher", "the command of a program starts its ranks", wording.Sprintf("give the number to the command, as in mpiexec -n 4; {np} is for simulated jobs"))
	row("ranks=dmtcp count|iterations", "how long a program runs is not known", wording.Sprintf("use {interval} or {overhead}"))
	row("ranks=program count !iterations", "how many boundaries a program passes is not known", wording.Sprintf("add {iterations} with that number, or use {every}, {interval} or {overhead}"))
	row("ranks=program iterations !count", "a program ends when it ends", wording.Sprintf("leave {iterations} out, or add {count} for checkpoints that are spread over so many boundaries"))
	row(program+"mode=semi|uncoordinated", "the ranks of a program take checkpoints together", wording.Sprintf("leave {mode} out"))
	row(program+"mode|group-size|log|stagger", "the ranks of a program are one group", wording.Sprintf("leave it out, or run a simulated job"))
	row(program+"level", "a program stores what it protects", wording.Sprintf("leave {level} out"))
	row(program+"mpi|shared-once|library-once|residual-every", "it is about the memory that ckpt itself gives to simulated ranks", "leave it out: a program has its own memory")
	row("ranks=dmtcp tune|objective|background", "DMTCP writes one image per process, in its own way", "leave it out with DMTCP")
	row("ranks=program objective=bytes", "what another codec leaves of a program's memory is not known", wording.Sprintf("use {objective} pause or latency; {tune APP} with a model of the program's own jobs compares codecs"))
	row("ranks=dmtcp model", "models are of what ckpt stores, and DMTCP writes images of its own", "leave it out")
	row("ranks=dmtcp every=epoch", "the epochs of a program that is not changed are not known", wording.Sprintf("give {every} a time"))
	row("ranks=simulated nodes-from-launcher|grace|engine", "only programs have it", "give the command of a program after --, or leave it out")
	row(ClashBoundary, "the iterations of a program that is not changed are not known", "write rank=R@t=DUR or mtbf=DUR[,seed=S]")
	row("from-launcher nodes|map", "both say where the ranks of a program are", "give one of them")
	row("ranks=simulated chdir", "only programs run in a directory of their own", "leave it out")
	row("ranks=simulated|dmtcp command", "only programs that call ckpt are restarted with another command", "leave out what follows --")
}

func ofDMTCP(row func(terms, because, remedy string)) {
	const dmtcp, leave = "ranks=dmtcp ", "leave it out with DMTCP"
	row(dmtcp+"nodes-from-launcher|nodes|map|listen", "all processes of a program under DMTCP run on this host", leave)
	row(dmtcp+"every-n", "the iterations of a program that is not changed are not known", wording.Sprintf("give {every}, {interval} a duration like 30m, or give {overhead} a share"))
	row(dmtcp+"grace", "DMTCP ends the program itself", leave)
	row(dmtcp+"protect|domains", "all processes of a program under DMTCP run on this host, and no other node can keep copies", leave)
	row(dmtcp+"drain-less", "a program under DMTCP restarts from the store, which needs each of its checkpoints", wording.Sprintf("leave {drain} out with DMTCP"))
	row(dmtcp+"incremental|async|staging", "DMTCP writes the memory of the program itself, and what it has written is always stored once and behind the program", leave)
	row(dmtcp+"layout|strategy|aggregators|buffer|stripe-size|stripe-count|first-ost|p1|p2|p3|p4", "DMTCP writes one image per process", leave)
	row(dmtcp+"without-log|chdir", "a program under DMTCP has neither logs nor a directory to choose", "leave it out")
	row(dmtcp+"other-np", "images of DMTCP are of as many ranks as they were taken from", "leave the number of ranks out")
}

func ofGroups(row func(terms, because, remedy string)) {
	row("mode=coordinated log|stagger", "it is for groups of ranks that do not take checkpoints together", wording.Sprintf("add {mode} uncoordinated or {mode} semi"))
	row("mode=coordinated jitter !every|interval", "nothing else has an interval to vary", wording.Sprintf("add {every} or {interval}, or leave {jitter} out"))
	row("mode=coordinated|uncoordinated group-size", "groups are for semi-coordinated checkpoints", wording.Sprintf("add {mode} semi"))
	row("mode=semi log=optimistic|none", "messages between groups of several ranks are logged pessimistically", wording.Sprintf("leave {log} out, or use {mode} uncoordinated"))
	row("mode=semi groups=one log|stagger|jitter", "all ranks are one group, which logs and staggers nothing", wording.Sprintf("{nodes}, {map} or {group-size} makes several"))
	row("mode=semi|uncoordinated launcher=mpiexec|srun", "the launcher ends all ranks when one dies", wording.Sprintf("use {launcher} local"))
	row("seed !jitter !stagger=random", "nothing else is drawn at random", wording.Sprintf("add {jitter} or {stagger} random, or leave {seed} out"))
	row("groups=several keep", "groups that take checkpoints apart from each other remove at once those that no recovery needs", wording.Sprintf("leave {keep} out: such a job keeps few checkpoints by itself"))
	row("local mode=semi !group-size other-map", "each node keeps checkpoints of its own groups", wording.Sprintf("keep the mapping, or launch with {group-size}"))
	row("local mode=semi|uncoordinated other-np", "each node keeps checkpoints of its own groups", wording.Sprintf("leave {np} out"))
	row("groups=several next", "checkpoints of groups belong with the newest of their message logs, which a running job adds to", wording.Sprintf("leave {next} out; {copy JOB} copies such a job while it does not run"))
	row("groups=several checkpoint", "one checkpoint is of some ranks only: the job resumes from its recovery line", wording.Sprintf("leave {checkpoint} out; {show JOB} {recovery-line} shows where it resumes"))
	row("groups=several exact", "groups resume from a recovery line, which leaves out what is damaged", wording.Sprintf("leave {exact} out; {show JOB} {recovery-line} shows where it resumes"))
	row("without-log logs=none", "the job logs no messages: there is no log to do without", wording.Sprintf("leave {without-log} out"))
}

func ofStorage(row func(terms, because, remedy string)) {
	row("local groups=several drain=none log=none|optimistic", "such groups go back to a line of older checkpoints, and the nodes keep the newest", wording.Sprintf("leave {drain} out, or {log}"))
	row("local groups=several listen", "groups of ranks run on one host", wording.Sprintf("leave {listen} out"))
	row("local objective-pause", "the pause is on the nodes, and the description is of the store", wording.Sprintf("use {objective} latency or bytes, or leave it out"))
	row("tune background", "a running job measures what others leave of the storage", wording.Sprintf("leave {background} out"))
	row("objective|background !tune", wording.Sprintf("only {tune} looks for the least of something"), wording.Sprintf("add {tune}"))
	row("protect|domains|drain|drain-rate !local", wording.Sprintf("only {local} keeps checkpoints on the nodes"), wording.Sprintf("add {local} %s", TierExample))
	row("domains protect=none", "without protection nothing is kept on other nodes", wording.Sprintf("add {protect} partner, or leave {domains} out"))
	row("drain-rate drain=none", "nothing is copied", wording.Sprintf("leave {drain-rate} out, or drain behind the job"))
	row("staging !async", "only asynchronous checkpoints stage memory", wording.Sprintf("add {async}"))
	row("async-several staging", "each checkpoint in flight is a copy of the whole memory", wording.Sprintf("leave {staging} out, or use {async} without a number"))
	row(ClashLost, "the nodes of the job have no directories", wording.Sprintf("{local} %s gives each node one", TierExample))
	row("level=application shared-once|library-once", "the application level stores neither segments nor libraries", "leave it out")
	row("layout=per-rank strategy|aggregators|p2|p3|p4", "every rank writes its own bytes", wording.Sprintf("add {layout} shared or {layout} aggregated"))
	row("layout=shared strategy=individual aggregators|p2|p3|p4", "every rank writes its own bytes", wording.Sprintf("leave {strategy} out, or it"))
	row("layout=aggregated p4", "several aggregators per OST are for one shared file in two phases", wording.Sprintf("use {layout} shared"))
	row("layout=shared strategy=dynamic|static p4", "several aggregators per OST are for one shared file in two phases", wording.Sprintf("leave {strategy} out"))
	row("restarts !auto-restart", "failed ranks are not restarted", wording.Sprintf("add {auto-restart}"))
	row("every count|interval|overhead", "each says alone when checkpoints are taken, and they exclude each other", "give one of them")
	row("count interval|overhead", "each says alone when checkpoints are taken, and they exclude each other", "give one of them")
	row("interval overhead", "each says alone when checkpoints are taken, and they exclude each other", "give one of them")
	row("nodes map", "each says alone where the ranks are, and they exclude each other", "give one of them")
}

func ofNumbers(row func(terms, because, remedy string)) {
	row(ClashCount, "checkpoints are taken between two iterations", "")
	row(ClashGroup, "a group has at most all ranks", "")
	row(ClashMapping, "each rank is on one node, and each node has a rank", "")
	row(ClashApp, "the application does not divide its arrays among so many ranks", "")
	row(ClashEpoch, "the application has no epochs", "")
	row(ClashRank, "a failure hits a rank of the job", "")
	row(ClashNode, "a failure hits a node of the job", "")
	row(ClashIter, "a failure happens before the job ends", "")
	row(ClashProtect, "redundancy is on other nodes, in other failure domains", "")
	row(ClashWriters, "aggregators are ranks, and each OST has as many as any other", "")
	row(ClashBuffer, "a buffer holds a stripe, and a page of each rank", "")
	row(ClashStore, "a store and the directories of nodes lie apart from each other", "")
	row(ClashArrays, "another number of ranks has no use for what belongs to one rank", "")
	row(ClashCommand, "the command of the job does not say in one place how many ranks it starts", "")
	row(ClashCut, "other groups begin with the newest checkpoints that fit together", wording.Sprintf("leave {checkpoint} and @N out"))
	row(ClashMessages, "it holds messages that the rank has yet to receive", "")
}

// Lookup tells what the description says. Groups tells of one group where that matters.
func (r *Resolved) Lookup(groups string) Lookup {
	text := func(s string) (string, bool) { return s, s != "" }
	number := func(n int) (string, bool) { return strconv.Itoa(n), n != 0 }
	return func(name string) (value string, given bool) {
		switch name {
		case "ranks":
			return r.ranks(), true
		case "groups":
			if r.Several() {
				groups = "several"
			}
			return text(groups)
		case "logs":
			if !r.Several() {
				return channel.None.String(), true
			}
			return r.Log.String(), true
		case "mode":
			return string(r.Mode), r.Mode != Coordinated
		case "group-size":
			return number(r.GroupSize)
		case "log":
			return text(r.Spec.Log)
		case "stagger":
			return text(r.Spec.Stagger)
		case "jitter":
			return text(r.share())
		case "launcher":
			return r.Launcher, r.Program == nil && r.Launcher != "" && r.Launcher != LocalLauncher
		case "count":
			return number(r.Schedule.Count)
		case "every", "every-n":
			return number(r.Schedule.Every)
		case "interval":
			return number(int(r.Schedule.Interval))
		case "iterations":
			return number(r.boundaries())
		case "keep":
			return number(r.Keep)
		case "next":
			return "", len(r.Next) > 0
		case "level":
			return text(string(r.Level))
		case "tune":
			return "", r.Tuning != nil
		case "layout":
			layout := r.WritePath.Layout
			return string(layout), layout != "" && layout != plan.PerRank
		case "local":
			if r.Tier != nil {
				return r.Tier.Dir, true
			}
		case "drain":
			if r.Tier != nil {
				return r.Tier.Drain.Mode, true
			}
		}
		return "", false
	}
}

func (r *Resolved) ranks() string {
	switch {
	case r.Program == nil:
		return "simulated"
	case r.Origin != "":
		return "dmtcp"
	}
	return "program"
}

// share is the jitter as users write it, empty without any.
func (r *Resolved) share() string {
	if r.Jitter == 0 {
		return ""
	}
	return strconv.FormatFloat(math.Round(r.Jitter*1e4)/1e2, 'g', -1, 64) + "%"
}
