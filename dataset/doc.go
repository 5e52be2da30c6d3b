// Package dataset describes the memory of applications, and holds measurements of it.
//
// A workload spec is a YAML text that names the arrays of one application and gives
// each a size, as an expression over the problem class and the number of processes.
// Two packages use the same description: coordinator/app allocates exactly these
// arrays and computes on them, and predict evaluates the same expressions. So running
// a job checks a prediction.
//
//	inst, err := dataset.ParseApp("bt.B.4", 0)
//	fmt.Println(inst, inst.DataBytes()) // bt.B.4, bytes of the data zone of one rank
//
// Tables hold measurements: 52 of León's thesis are built in, each with the origin of
// its numbers and their known errors. A user's CSV of the same shape can take the
// place of a table's name.
//
//	t, err := dataset.LoadTable("5.16")     // or table_5_16, or path/to/mine.csv
//	mib, err := t.Number(0, "bt_dtapp_MiB") // units are in the names of columns
//	rows, err := dataset.MeasurementsOf(t)  // typed: sizes by zone in MiB
//
// The specs of bt, sp, lu, cg, minighost and ring are built in; a path to a
// YAML file stands wherever a name does. docs/WORKLOADS.md describes the format.
//
// Promises:
//
//   - Sizes are exact: expressions are evaluated in rational arithmetic, and an
//     array that is not a whole number of elements is an error, never rounded.
//   - A spec is data. Expressions have no loops, no strings and no access to
//     anything but the spec's own parameters; hostile text ends in an error.
//   - Errors are of type [SpecError] or, about the text of a table, [TableError],
//     which names line and column; they are one line long and carry a hint.
//   - Tables are returned as they were printed. Only the typed readers correct:
//     see [Measurement], [ImageFiles] and [Latencies] for what and why.
//   - DataBytes of the NAS benchmarks agrees with the DTAPP columns of León
//     (2022), Tables 4.1-4.3, 5.1, 5.2 and 5.16, within 3 %, mostly 0.5 %
//     (TestMeasuredSizes logs every row).
package dataset
