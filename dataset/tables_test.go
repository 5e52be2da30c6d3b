package dataset

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// All built-in tables are readable, say where they come from, and hold as many
// rows as their index says.
func TestBuiltinTables(t *testing.T) {
	names := TableNames()
	if len(names) != 52 {
		t.Errorf("%d tables, want 52", len(names))
	}
	rows := 0
	for _, name := range names {
		tab, err := LoadTable(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(tab.Source, "Leon Otero") || len(tab.Rows) == 0 {
			t.Errorf("%s: source %q, %d rows", name, tab.Source, len(tab.Rows))
		}
		rows += len(tab.Rows)
		text, err := TableText(name)
		if err != nil || !strings.HasPrefix(string(text), "# source: ") {
			t.Errorf("%s: no provenance line (%v)", name, err)
		}
	}
	for name, want := range map[string]int{"5.8": 108, "5.9": 16, "5.10": 26, "5.11": 108, "4.3": 15, "5.1": 26, "text_numbers": 78} {
		if tab, err := LoadTable(name); err != nil || len(tab.Rows) != want {
			t.Errorf("%s: %v, want %d rows", name, err, want)
		}
	}
	t.Logf("%d tables, %d rows", len(names), rows)
}

func TestFindTable(t *testing.T) {
	for name, want := range map[string]string{"5.16": "table_5_16_bt_sp_lu_dtapp_class_b_vs_c", "table_5_1": "table_5_1_bt_zone_sizes_mpich_openmpi_1node",
		"fig_5_9": "fig_5_9_mpich_buffer_size_aggregator_file", "platforms": "platforms", "platforms.csv": "platforms"} {
		if tab, err := LoadTable(name); err != nil || tab.Name != want {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "9.9", "fig", "nosuch", "no/such.csv"} {
		_, err := LoadTable(name)
		var spec *SpecError
		if !errors.As(err, &spec) || !errors.Is(err, os.ErrNotExist) || spec.Hint() == "" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The typed readers see every row, in MiB.
func TestMeasurements(t *testing.T) {
	rows, err := Measurements()
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 5+5+15+26+10+36 {
		t.Errorf("%d measurements", len(rows))
	}
	if r := rows[0]; r.App != "bt" || r.Class != "D" || r.NP != 16 || r.PPN != 16 || r.Data != 1626.72 || r.Library != 2.45 || r.Shared != 105.12 || r.File != 1734.29 || r.MPI != "mpich" || r.SharedDoubtful {
		t.Errorf("first row of Table 4.1: %+v", r)
	}
	doubtful := 0
	for _, r := range rows {
		if r.SharedDoubtful {
			doubtful++
		}
	}
	if doubtful != 13 { // 2 in Table 4.2, 8 and row 36 in 4.3, 2 in 5.1
		t.Errorf("%d shared zones are doubtful", doubtful)
	}
	files, err := ImageFiles()
	if err != nil || len(files) != 232 {
		t.Fatalf("%d image files: %v", len(files), err)
	}
	for _, f := range files {
		sum := 0
		for _, n := range f.Mapping {
			sum += n
		}
		if sum != f.NP || f.Rank >= f.NP || f.Aggregators == 0 {
			t.Errorf("%+v", f)
		}
	}
	latencies, err := Latencies()
	if err != nil || len(latencies) != 40 {
		t.Fatalf("%d latencies: %v", len(latencies), err)
	}
	for _, l := range latencies {
		if l.Seconds <= 0 || l.RawMiB <= 0 || l.StoredMiB <= 0 || l.StoredMiB > 1.01*l.RawMiB {
			t.Errorf("%+v", l)
		}
	}
}

// Units do not matter, only that a column keeps to one.
func TestUnits(t *testing.T) {
	var all []Measurement
	for unit, factor := range map[string]float64{"MiB": 1, "KiB": 1024, "GiB": 1. / 1024, "B": 1 << 20} {
		rows, err := read(fmt.Sprintf("app,class,n_processes,dtapp_%s\nbt,B,4,%v\n", unit, 110*factor))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
	}
	for _, m := range all {
		if math.Abs(m.Data-110) > 1e-9 {
			t.Errorf("%g MiB, want 110", m.Data)
		}
	}
}

func read(text string) ([]Measurement, error) {
	tab, err := ReadTable(strings.NewReader(text), "mine.csv")
	if err != nil {
		return nil, err
	}
	return MeasurementsOf(tab)
}

// Each error of a user's table names row, column and remedy in one line.
func TestBadTables(t *testing.T) {
	const head = "app,class,n_processes,dtapp_MiB\n"
	for _, c := range []struct {
		name, text string
		line       int
		column     string
		want, hint string
	}{
		{"empty", "", 0, "", "is empty", "names the columns"},
		{"only comments", "# source: me\n", 0, "", "is empty", "names the columns"},
		{"no rows", head, 0, "", "no rows", "add a line"},
		{"no app", "class,n_processes,dtapp_MiB\nB,4,110\n", 0, "app", "missing", "add a column app"},
		{"no class", "app,n_processes,dtapp_MiB\nbt,4,110\n", 0, "class", "missing", "add a column class"},
		{"no processes", "app,class,dtapp_MiB\nbt,B,110\n", 0, "n_processes", "missing", "number of processes"},
		{"no size", "app,class,n_processes\nbt,B,4\n", 0, "dtapp_MiB", "missing", "shmem_MiB"},
		{"no unit", "app,class,n_processes,dtapp\nbt,B,4,110\n", 1, "dtapp", "no unit", "dtapp_MiB"},
		{"two units", "app,class,n_processes,dtapp_MiB,dtapp_KiB\nbt,B,4,110,112640\n", 1, "dtapp_KiB", "units are mixed", "keep one"},
		{"unit in a cell", head + "bt,B,4,110\nbt,B,9,54000 KiB\n", 3, "dtapp_MiB", "unit of its own", "number only"},
		{"slip of a unit", head + "bt,B,4,110\nbt,B,9,54\nbt,B,16,32000\n", 4, "dtapp_MiB", "units are mixed", "MiB"},
		{"NaN", head + "bt,B,4,NaN\n", 2, "dtapp_MiB", "not a measurement", "leave the cell empty"},
		{"infinite", head + "bt,B,4,+Inf\n", 2, "dtapp_MiB", "not a measurement", "leave the cell empty"},
		{"negative", head + "bt,B,4,110\nbt,B,9,-54\n", 3, "dtapp_MiB", "not a positive size", "positive"},
		{"zero", head + "bt,B,4,0\n", 2, "dtapp_MiB", "not a positive size", "empty"},
		{"text", head + "bt,B,4,large\n", 2, "dtapp_MiB", "not a number", "109.94"},
		{"half a process", head + "bt,B,4.5,110\n", 2, "n_processes", "not a count", "whole number"},
		{"no count", head + "bt,B,,110\n", 2, "n_processes", "empty", "number of processes"},
		{"UTF-16", "\xff\xfea\x00p\x00", 1, "", "UTF-16", "UTF-8"},
		{"thousands or decimals", strings.ReplaceAll(head, ",", ";") + "bt;B;4;1,040\n", 2, "dtapp_MiB", `"1,040" is 1040 or 1.040`, "1040 without a comma"},
		{"points of thousands", strings.ReplaceAll(head, ",", ";") + "bt;B;4;16.384\nbt;B;16;4.096\n", 2, "dtapp_MiB", `"16.384" is 16384 or 16.384`, "16384 without a point"},
		{"points of thousands, tabs", strings.ReplaceAll(head, ",", "\t") + "bt\tB\t4\t3,75\nbt\tB\t9\t1.200\n", 3, "dtapp_MiB", `"1.200" is 1200 or 1.200`, "decimals as 1.2000"},
		{"unit of powers of 10", strings.Replace(head, "MiB", "MB", 1) + "bt,B,4,110\n", 1, "dtapp_MB", "the unit MB", "dtapp_MiB (or _KiB, _GiB, _B) and convert the numbers: 1 MB is 0.954 MiB"},
		{"unit of powers of 10, of the file", "app,class,np,ckpt_file_GB\nbt,B,4,110\n", 1, "ckpt_file_GB", "the unit GB", "ckpt_file_MiB (or _KiB, _GiB, _B) and convert the numbers: 1 GB is 0.931 GiB"},
		{"unit of powers of 10, of the segment", head[:len(head)-1] + ",shmem_kB\nbt,B,4,110,9\n", 1, "shmem_kB", "the unit kB", "shmem_MiB (or _KiB, _GiB, _B) and convert the numbers: 1 KB is 0.977 KiB"},
		{"two decimal marks", strings.ReplaceAll(head, ",", ";") + "bt;B;4;110.5\nbt;B;9;54,25\n", 3, "dtapp_MiB", "other cells have a point", "one of the two"},
		{"unquoted decimal comma", head + "bt,B,4,110,5\n", 2, "", "5 cells", "semicolons"},
		{"compressed file alone", "app,class,np,codec,ckpt_file_MiB\nbt,B,4,gzip,40\n", 2, "codec", "does not tell the memory", "add the zones"},
		{"compressed unawares", "app,class,np,dtapp_MiB,lb_MiB,ckpt_file_MiB\nbt,B,4,110,80,40\n", 2, "ckpt_file_MiB", "less than the zones", "column codec"},
		{"codec", head[:len(head)-1] + ",codec\nbt,B,4,110,-9 (best)\n", 2, "codec", "not a codec", "gzip"},
		{"short row", head + "bt,B,4\n", 2, "", "3 cells", "leave a cell empty"},
		{"column twice", "app,class,app,dtapp_MiB\n", 1, "app", "twice", "rename"},
		{"nameless column", "app,,class\n", 1, "", "no name", "header"},
		{"quote", head + "\"bt,B,4,110\n", 2, "", "quote", "commas"},
		{"times", "app,class,np,dtapp_MiB,app_time_s\nbt,B,4,110,3\n", 1, "app_time_s", "is a time of no phase", "coordination, management"},
		{"MPI", "app,class,n_processes,mpi,dtapp_MiB\nbt,B,4,lam,110\n", 2, "mpi", "lam", "mpich or openmpi"},
		{"nodes", "app,class,n_processes,n_nodes,dtapp_MiB\nbt,B,4,8,110\n", 2, "n_nodes", "exceeds", "correct"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := read(c.text)
			var bad *TableError
			if !errors.As(err, &bad) {
				t.Fatalf("error %v", err)
			}
			if bad.Line != c.line || bad.Column != c.column || !strings.Contains(bad.Error(), c.want) || !strings.Contains(bad.Hint(), c.hint) {
				t.Errorf("line %d, column %q: %v\nhint: %s", bad.Line, bad.Column, bad, bad.Hint())
			}
			if strings.Contains(bad.Error()+bad.Hint(), "\n") {
				t.Error("more than one line")
			}
		})
	}
}

// A table means the same in all forms that spreadsheets and people write.
func TestForms(t *testing.T) {
	want, err := read("app,class,n_processes,dtapp_MiB\nbt,B,4,1100.5\nbt,B,9,54.25\n")
	if err != nil {
		t.Fatal(err)
	}
	const comma = "app,class,n_processes,dtapp_MiB\nbt,B,4,1100.5\nbt,B,9,54.25\n"
	semicolons := strings.ReplaceAll(comma, ",", ";")
	for name, text := range map[string]string{
		"BOM":            "\ufeff" + comma,
		"BOM and source": "\ufeff# source: me\n" + comma,
		"CRLF":           strings.ReplaceAll(comma, "\n", "\r\n"),
		"CR":             strings.ReplaceAll(comma, "\n", "\r"),
		"semicolons":     semicolons,
		"decimal commas": strings.ReplaceAll(semicolons, ".", ","),
		"quoted commas":  "app,class,n_processes,dtapp_MiB\nbt,B,4,\"1100,5\"\nbt,B,9,\"54,25\"\n",
		"tabs":           strings.ReplaceAll(comma, ",", "\t"),
		"tabs, commas":   strings.ReplaceAll(strings.ReplaceAll(comma, ",", "\t"), ".", ","),
		"empty rows":     semicolons + ";;;\n\n;;;\n",
		"no last line":   strings.TrimSuffix(comma, "\n"),
		"exponents":      strings.ReplaceAll(comma, "1100.5", "1.1005e3"),
		"sep=":           "sep=;\n" + semicolons,
		"sep=, BOM":      "\ufeffsep=;\r\n" + semicolons,
		"sep=, tabs":     "sep=\t\n" + strings.ReplaceAll(comma, ",", "\t"),
		"index":          ",app,class,n_processes,dtapp_MiB\n0,bt,B,4,1100.5\n1,bt,B,9,54.25\n",
		"index read":     "Unnamed: 0,app,class,n_processes,dtapp_MiB\n0,bt,B,4,1100.5\n1,bt,B,9,54.25\n",
		"R's index":      "\"\";\"app\";\"class\";\"n_processes\";\"dtapp_MiB\"\n\"1\";\"bt\";\"B\";4;1100,5\n\"2\";\"bt\";\"B\";9;54,25\n",
		"NA":             "app,class,n_processes,lb_MiB,dtapp_MiB\nbt,B,4,NA,1100.5\nbt,B,9,N/A,54.25\n",
		"thousands":      "app;class;n_processes;dtapp_MiB\nbt;B;4;1.100,5\nbt;B;9;54,25\n",
	} {
		got, err := read(text)
		if err != nil || len(got) != 2 || got[0].Data != want[0].Data || got[1].Data != want[1].Data || got[1].NP != 9 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// Several marks in one number stand between thousands, and so do single ones beside it.
	for name, text := range map[string]string{
		"points": "app;class;n_processes;dtapp_B\nbt;B;4;1.112.640\nbt;B;9;524.288\n",
		"commas": "app;class;n_processes;dtapp_B\nbt;B;4;1,112,640\nbt;B;9;524,288\n",
		"quoted": "app,class,n_processes,dtapp_B\nbt,B,4,\"1,112,640\"\nbt,B,9,\"524,288.0\"\n",
	} {
		got, err := read(text)
		if err != nil || len(got) != 2 || got[0].Data != 1112640./(1<<20) || got[1].Data != 0.5 {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	// Commas between the cells leave the point to decimals, and so does another cell.
	for _, text := range []string{"app,class,n_processes,dtapp_MiB\nbt,B,4,16.384\n", "app;class;n_processes;dtapp_MiB\nbt;B;4;16.384\nbt;B;9;7.5\n"} {
		if got, err := read(text); err != nil || got[0].Data != 16.384 {
			t.Errorf("%+v, %v", got, err)
		}
	}
	// The last number could be 1.2 or 1200; the others say that commas are decimal.
	got, err := read("app;class;n_processes;dtapp_MiB\nbt;B;4;3,75\nbt;B;9;1,200\n")
	if err != nil || got[1].Data != 1.2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Each of repeated runs is a row.
func TestRepeatedRuns(t *testing.T) {
	got, err := read("app,class,n_processes,dtapp_MiB\nbt,B,4,110\nbt,B,4,112\nbt,B,9,54\n")
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if m := Means(got); len(m) != 2 || m[0].Data != 111 || m[0].Runs != 2 || math.Abs(m[0].Scatter.Data-math.Sqrt2) > 1e-9 {
		t.Errorf("%+v", m)
	}
}

// The file of a compressed image is what was stored; its zones are those of the memory.
func TestCompressedRows(t *testing.T) {
	got, err := read("app,class,np,codec,dtapp_MiB,lb_MiB,ckpt_file_MiB,stored_MiB\nbt,B,4,gzip,110,80,40,\nbt,B,9,none,54,80,134,\nbt,B,16,zstd,30,80,,17\nbt,B,16,,30,80,110,\n")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Measurement{{Codec: "gzip", Stored: 40}, {File: 134}, {Codec: "zstd", Stored: 17}, {File: 110}} {
		if m := got[i]; m.Codec != want.Codec || m.Stored != want.Stored || m.File != want.File || m.Data == 0 {
			t.Errorf("row %d: %+v, want %+v", i, m, want)
		}
	}
	if len(Means(got)) != 4 {
		t.Error("runs with and without a codec were merged")
	}
}

// Neither strong nor weak scaling over a wide range looks like a slip of units.
func TestWideRanges(t *testing.T) {
	for _, text := range []string{
		"bt,D,4,6500\nbt,D,4096,7\n",
		"minighost,B,4,38.2\nminighost,B,4096,38.2\n",
		"lu,D,1,40000\nlu,D,64,700\nlu,D,16384,5\n",
	} {
		if _, err := read("app,class,n_processes,dtapp_MiB\n" + text); err != nil {
			t.Error(err)
		}
	}
}

func TestTableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mine.csv")
	if err := os.WriteFile(path, []byte("# source: own runs | NOTE: mean of 3\napp,class,n_processes,n_nodes,mpi,dtapp_MiB\nbt,B,16,4,Open MPI,33\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tab, err := LoadTable(path)
	if err != nil {
		t.Fatal(err)
	}
	if tab.Source != "own runs" || tab.Note != "mean of 3" {
		t.Errorf("source %q, note %q", tab.Source, tab.Note)
	}
	rows, err := MeasurementsOf(tab)
	if err != nil || len(rows) != 1 || rows[0].PPN != 4 || rows[0].MPI != "openmpi" {
		t.Errorf("%+v, %v", rows, err)
	}
}

func FuzzReadTable(f *testing.F) {
	f.Add("# source: x | NOTE: y\napp,class,n_processes,dtapp_MiB\nbt,B,4,110\n")
	f.Add("app,class,n_processes,dtapp_KiB,mpi\nbt,B,4,1e300,ompi\nbt,B,9,\"\",\n")
	f.Add("\ufeffapp;class;np;dtapp_MiB;codec;stored_MiB\r\nbt;B;4;1040,5;gzip;17,25\r\n")
	f.Add("app\tclass\tnp\tlb_B\nbt\tB\t4\t1,040\n")
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := read(text)
		if err != nil {
			var bad *TableError
			if !errors.As(err, &bad) || bad.Hint() == "" || strings.Contains(bad.Error(), "\n") {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, m := range rows {
			for _, v := range []float64{m.Data, m.Library, m.Shared, m.File, m.Stored} {
				if math.IsNaN(v) || v < 0 || v > 1<<30 {
					t.Fatalf("%+v", m)
				}
			}
			if m.NP < 1 || m.PPN < 1 || m.App == "" {
				t.Fatalf("%+v", m)
			}
		}
	})
}

func ExampleLoadTable() {
	t, err := LoadTable("4.3")
	if err != nil {
		fmt.Println(err)
		return
	}
	mib, err := t.Number(14, "measured_dtapp_MiB")
	fmt.Println(t.Text(14, "mapping"), mib, err)
	// Output: 6Nx54P 100.9 <nil>
}
