package dataset

import (
	"ckpt/internal/lazy"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A Measurement is one row of a table of image sizes: the memory of one rank, zone by
// zone. Sizes are in MiB, 0 if the row does not have them.
type Measurement struct {
	Table string `json:"table"`
	Line  int    `json:"line"`
	// App and Class are as in workload names (bt, B), MPI is mpich or openmpi.
	App   string `json:"app"`
	Class string `json:"class"`
	MPI   string `json:"mpi"`
	// NP is the number of processes of the job, PPN of the node.
	NP  int `json:"np"`
	PPN int `json:"ppn"`

	Data    float64 `json:"data_mib,omitempty"`
	Library float64 `json:"library_mib,omitempty"`
	Shared  float64 `json:"shared_mib,omitempty"`
	File    float64 `json:"file_mib,omitempty"`
	// Codec is how the image was compressed, "" if it was not. Stored is the size after
	// compression; the zones are of the memory.
	Codec  string  `json:"codec,omitempty"`
	Stored float64 `json:"stored_mib,omitempty"`
	// Runs is the number of runs whose mean the row is, 0 for a single run. Scatter is
	// how they differ.
	Runs    int     `json:"run_count,omitempty"`
	Scatter Scatter `json:"scatter,omitzero"`
	// SharedDoubtful marks shared zones that were computed rather than measured
	// (León 2022, Table 4.3 and others) or stand in the wrong row.
	SharedDoubtful bool `json:"shared_doubtful,omitempty"`
}

// Series names the measurements that belong to one curve: bt.B mpich.
func (m Measurement) Series() string { return m.App + "." + m.Class + " " + m.MPI }

// sizeTables are the built-in tables of sizes by zone, with the properties that their
// columns lack.
var sizeTables = []struct {
	name     string
	defaults Measurement
	// data is a column of the data zone for one application, in a table with several
	// such columns (Table 5.16).
	data string
}{
	{"table_4_1", Measurement{App: "bt", Class: "D", MPI: "mpich"}, ""},
	{"table_4_2", Measurement{App: "sp", Class: "B", MPI: "mpich"}, ""},
	{"table_4_3", Measurement{App: "bt", Class: "D", MPI: "mpich"}, ""},
	{"table_5_1", Measurement{}, ""},
	{"table_5_2", Measurement{}, ""},
	{"table_5_16", Measurement{App: "bt", MPI: "mpich"}, "bt_dtapp_MiB"},
	{"table_5_16", Measurement{App: "sp", MPI: "mpich"}, "sp_dtapp_MiB"},
	{"table_5_16", Measurement{App: "lu", MPI: "mpich"}, "lu_dtapp_MiB"},
}

// Measurements returns the rows of the built-in tables of sizes by zone: León
// (2022), Tables 4.1-4.3, 5.1, 5.2 and 5.16, in this order.
func Measurements() ([]Measurement, error) {
	var out []Measurement
	for _, s := range sizeTables {
		rows, err := measurementsOf(s.name, s.defaults, s.data)
		if err != nil {
			return nil, err
		}
		out = append(out, rows...)
	}
	return out, nil
}

// MeasurementsOf reads the measurements of one table, built-in or a user's.
//
// The columns of a user's table are app, class, n_processes, and at least one
// size: dtapp_MiB (or data_MiB), lb_MiB (library_MiB), shmem_MiB (shared_MiB),
// ckpt_file_MiB (file_MiB); in place of MiB may stand B, KiB or GiB. Optional
// are mpi (mpich by default), processes_per_node or n_nodes (1 by default), codec and
// stored_MiB (the size after compression). Repeated runs are rows of their own; [Means]
// merges them.
func MeasurementsOf(t *Table) ([]Measurement, error) {
	if name, err := findTable(t.Name); err == nil && name == t.Name {
		var out []Measurement
		known := false
		for _, s := range sizeTables {
			if strings.HasPrefix(name, s.name+"_") {
				rows, err := t.measurements(s.defaults, s.data)
				if err != nil {
					return nil, err
				}
				out, known = append(out, rows...), true
			}
		}
		if known {
			return out, nil
		}
	}
	if err := t.checkSizeColumns(); err != nil {
		return nil, err
	}
	out, err := t.measurements(Measurement{}, "")
	if err != nil {
		return nil, err
	}
	return out, t.check(out)
}

// measurementColumns lists the columns that a user's table of measurements may have.
func measurementColumns() []string {
	known := slices.Concat([]string{"app", "class", "mpi", "note"}, npColumns, ppnColumns, nodesColumns, codecColumns, timeColumns())
	for _, s := range sizeColumns {
		for _, name := range s.names {
			known = append(known, name) // which is refused for want of a unit
			for unit := range mibPerUnit {
				known = append(known, name+"_"+unit)
			}
		}
	}
	slices.Sort(known)
	return known
}

// checkColumns refuses columns that would be ignored. The columns of an exported
// built-in table may stay.
func (t *Table) checkColumns(known []string) error {
	for _, c := range t.Columns {
		if !slices.Contains(known, c.Name) && !slices.Contains(thesisColumns(), c.Name) {
			return &TableError{Table: t.Name, Line: 1, Column: c.Name, Problem: "is not known", Known: known,
				hint: "leave the column out, or name it note"}
		}
	}
	return nil
}

// checkSizeColumns refuses columns that a fit of sizes would ignore; more are those that
// it would not.
func (t *Table) checkSizeColumns(more ...string) error {
	known := append(measurementColumns(), more...)
	for _, c := range t.Columns {
		if c.Unit == "s" && !slices.Contains(known, c.Name) && !slices.Contains(thesisColumns(), c.Name) {
			return t.bad(1, c.Name, "is a time of no phase that is known",
				"name it after the phase of a checkpoint, like "+words(phases)+", with _s at the end; leave the column out, or name it note")
		}
		if err := t.checkUnit(c.Name); err != nil {
			return err
		}
	}
	return t.checkColumns(known)
}

// decimalUnits are units that people write for those of powers of 2, with their size in
// the unit that a table has.
var decimalUnits = map[string]string{"KB": "0.977 KiB", "MB": "0.954 MiB", "GB": "0.931 GiB", "TB": "931 GiB", "TiB": "1024 GiB"}

// checkUnit refuses a size in a unit that is not known.
func (t *Table) checkUnit(column string) error {
	i := strings.LastIndexByte(column, '_')
	if i < 0 {
		return nil
	}
	base, unit := column[:i], column[i+1:]
	for _, s := range sizeColumns {
		if !slices.Contains(s.names, base) {
			continue
		}
		for known, same := range decimalUnits {
			if strings.EqualFold(unit, known) {
				return t.bad(1, column, "has the unit "+unit+", which is not known",
					"name it "+base+"_MiB (or _KiB, _GiB, _B) and convert the numbers: 1 "+known+" is "+same)
			}
		}
	}
	return nil
}

// thesisColumns lists the columns of the built-in tables of sizes.
var thesisColumns = sync.OnceValue(func() (columns []string) {
	for _, s := range sizeTables {
		if t, err := LoadTable(s.name); err == nil {
			for _, c := range t.Columns {
				columns = append(columns, c.Name)
			}
		}
	}
	return columns
})

func measurementsOf(name string, defaults Measurement, data string) ([]Measurement, error) {
	t, err := LoadTable(name)
	if err != nil {
		return nil, err
	}
	return t.measurements(defaults, data)
}

// The possible names of a column, best first. Tables 4.1-4.3, which also print
// estimates, have the prefix measured_.
var (
	npColumns    = []string{"n_processes", "n_processes_total", "np"}
	ppnColumns   = []string{"processes_per_node", "ppn"}
	nodesColumns = []string{"n_nodes", "nodes"}
	sizeColumns  = []struct {
		zone  string
		names []string
	}{
		{"data", []string{"dtapp", "measured_dtapp", "data"}},
		{"library", []string{"lb", "measured_lb", "library"}},
		{"shared", []string{"shmem", "measured_shmem", "shared"}},
		{"file", []string{"ckpt_file", "measured_ckpt_file", "ckpt_file_measured", "file"}},
		{"stored", []string{"stored", "ckpt_stored"}},
	}
)

func (t *Table) measurements(defaults Measurement, dataColumn string) ([]Measurement, error) {
	columns := map[string]string{}
	for _, s := range sizeColumns {
		c, err := t.sizeColumn(s.names)
		if err != nil {
			return nil, err
		}
		columns[s.zone] = c
	}
	if dataColumn != "" {
		columns["data"] = dataColumn
	}
	np := t.first(npColumns)
	for _, need := range []struct{ have, name, why string }{
		{defaults.App + t.first([]string{"app"}), "app", "the application, like bt"},
		{defaults.Class + t.first([]string{"class"}), "class", "the problem class, like B"},
		{np, "n_processes", "the number of processes"},
		{columns["data"] + columns["library"] + columns["shared"] + columns["file"], "dtapp_MiB",
			"the size of the data zone (or lb_MiB, shmem_MiB, ckpt_file_MiB)"},
	} {
		if need.have == "" {
			return nil, t.bad(0, need.name, "the column is missing", "add a column "+need.name+": "+need.why)
		}
	}
	var out []Measurement
	for i := range t.Rows {
		m := defaults
		m.Table, m.Line = tableNumberOf(t.Name), t.lines[i]
		if err := t.fill(&m, i, columns); err != nil {
			return nil, err
		}
		if m.Class == "" { // Lulesh, whose structure is unknown
			m.Class = "-"
		}
		out = append(out, m)
	}
	if len(out) == 0 {
		return nil, t.bad(0, "", "has a header but no rows", "add a line for each measurement")
	}
	return out, nil
}

func (t *Table) fill(m *Measurement, row int, columns map[string]string) error {
	var mpi string
	err := t.read(row, cell{[]string{"app"}, &m.App}, cell{[]string{"class"}, &m.Class}, cell{[]string{"mpi"}, &mpi},
		cell{[]string{columns["data"]}, size{&m.Data}}, cell{[]string{columns["library"]}, size{&m.Library}},
		cell{[]string{columns["shared"]}, size{&m.Shared}}, cell{[]string{columns["file"]}, size{&m.File}},
		cell{[]string{columns["stored"]}, size{&m.Stored}}, cell{codecColumns, &m.Codec})
	if err != nil {
		return err
	}
	m.App = strings.ToLower(m.App)
	if mpi != "" || m.MPI == "" {
		m.MPI = MPIName(cmp.Or(mpi, "mpich"))
	}
	if m.App == "" {
		return t.bad(m.Line, "app", "is empty", "name the application, like bt")
	}
	if m.MPI == "" {
		return t.bad(m.Line, "mpi", fmt.Sprintf("%q is unknown", mpi), "write mpich or openmpi")
	}
	if err := t.fillCounts(m, row); err != nil {
		return err
	}
	if err := t.checkStored(m, columns["file"]); err != nil {
		return err
	}
	// Table 4.3, row 36: 248.21 MiB is the shared zone of 36 processes on one
	// node, not of 18. Columns added by the digitiser flag the computed ones.
	m.SharedDoubtful = t.Text(row, "measured_shmem_equals_eq_3_11") == "yes" || t.Text(row, "shmem_equals_eq_3_11") == "yes" ||
		m.Table == "4.3" && m.NP == 36
	return nil
}

// fillCounts reads how many processes a row has, and how many on a node.
func (t *Table) fillCounts(m *Measurement, row int) error {
	ppn, nodes := 0, 0
	if err := t.read(row, cell{npColumns, &m.NP}, cell{ppnColumns, &ppn}, cell{nodesColumns, &nodes}); err != nil {
		return err
	}
	switch {
	case m.NP == 0:
		return t.bad(m.Line, t.first(npColumns), "is empty", "write the number of processes")
	case ppn > m.NP || nodes > m.NP:
		return t.bad(m.Line, t.first(ppnColumns)+t.first(nodesColumns), "exceeds the number of processes", "correct one of the two")
	case ppn > 0:
		m.PPN = ppn
	case nodes > 0:
		m.PPN = (m.NP + nodes - 1) / nodes
	default:
		m.PPN = m.NP
	}
	return nil
}

// check finds rows of a user's table in another unit than the rest.
func (t *Table) check(rows []Measurement) error {
	// Under strong scaling np·data stays nearly the same, under weak scaling data
	// does; a slip between units moves both by a factor of 1024.
	volumes, sizes := map[string][]float64{}, map[string][]float64{}
	for _, m := range rows {
		if m.Data > 0 {
			volumes[m.Series()] = append(volumes[m.Series()], m.Data*float64(m.NP))
			sizes[m.Series()] = append(sizes[m.Series()], m.Data)
		}
	}
	for series, v := range volumes {
		slices.Sort(v)
		slices.Sort(sizes[series])
	}
	column, _ := t.sizeColumn(sizeColumns[0].names)
	for _, m := range rows {
		v := volumes[m.Series()]
		if len(v) < 2 || m.Data == 0 {
			continue
		}
		r, size := m.Data*float64(m.NP)/v[len(v)/2], m.Data/sizes[m.Series()][len(v)/2]
		if r > 200 && size > 20 || r < 1./200 && size < 1./20 {
			return t.bad(m.Line, column, fmt.Sprintf("%s is %.3g times what the other rows of %s suggest; units are mixed", t.Text(m.row(t), column), r, m.Series()),
				"write all rows in the unit of the column's name ("+unitOf(column)+")")
		}
	}
	return nil
}

func (m Measurement) row(t *Table) int { return slices.Index(t.lines, m.Line) }

// MPIName returns mpich or openmpi for the usual spellings, or "".
func MPIName(s string) string {
	switch strings.NewReplacer("-", "", " ", "", "_", "").Replace(strings.ToLower(s)) {
	case "mpich":
		return "mpich"
	case "openmpi", "ompi":
		return "openmpi"
	}
	return ""
}

// tableNumberOf shortens table_5_16_bt_… to 5.16; other names stay.
func tableNumberOf(name string) string {
	if n := tableNumber(name); tableKind(name) == "table" && len(n) == 2 {
		return fmt.Sprintf("%d.%d", n[0], n[1])
	}
	return name
}

// TableLabel returns the short name of a built-in table: 5.16 for a table, fig 5.9 for
// the numbers behind a figure, and the name itself for others.
func TableLabel(name string) string {
	if n := tableNumber(name); tableKind(name) == "fig" && len(n) == 2 {
		return fmt.Sprintf("fig %d.%d", n[0], n[1])
	}
	return tableNumberOf(name)
}

// codecColumns name how the images of a row were compressed.
var codecColumns = []string{"codec", "compression"}

var codecName = lazy.Regexp(`^[a-z0-9][a-z0-9_-]*$`)

const maxCodecName = 32

// checkStored checks the codec and the stored size of a row. The zones of a compressed
// image are as in the memory; the size of its file is what was stored.
func (t *Table) checkStored(m *Measurement, file string) error {
	column := t.first(codecColumns)
	switch m.Codec = strings.ToLower(m.Codec); m.Codec {
	case "none", "no", "off":
		m.Codec = ""
	case "":
	default:
		if len(m.Codec) > maxCodecName || !codecName().MatchString(m.Codec) {
			return t.bad(m.Line, column, fmt.Sprintf("%q is not a codec", m.Codec), "write none, or a name like gzip")
		}
	}
	zones := m.Data + m.Library + m.Shared
	switch {
	case m.Codec != "" && zones == 0:
		return t.bad(m.Line, column, fmt.Sprintf("the size of a file under %s does not tell the memory in it", m.Codec),
			"add the zones, which ckpt zones reads from compressed images too, or leave the row out")
	case m.Codec != "":
		if m.Stored == 0 {
			m.Stored = m.File
		}
		m.File = 0
	case m.File > 0 && m.File < compressedBelow*zones:
		return t.bad(m.Line, file, fmt.Sprintf("%.2f MiB is less than the zones of the row, %.2f MiB", m.File, zones),
			"if the image was compressed, name its codec in a column codec: gzip")
	}
	return nil
}

// compressedBelow is the share of the zones from which on a file must be compressed: zones
// are rounded, and Table 5.9 prints files that are 14 % below their zones.
const compressedBelow = 0.8
