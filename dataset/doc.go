// Package dataset says what the memory of an application is made of.
//
// A workload spec is a YAML text that names the arrays of one application and
// gives each a size, as an expression over the problem class and the number of
// processes. One description serves twice: coordinator/app allocates exactly
// these arrays and computes on them, predict evaluates the same expressions.
// A prediction can therefore be checked by running.
//
//	inst, err := dataset.ParseApp("bt.B.4", 0)
//	fmt.Println(inst, inst.DataBytes()) // bt.B.4, bytes of the data zone of one rank
//
// The specs of bt, sp, lu, cg, minighost and ring are built in; a path to a
// YAML file stands wherever a name does. docs/WORKLOADS.md describes the format.
//
// What the package promises:
//
//   - Sizes are exact: expressions are evaluated in rational arithmetic, and an
//     array that is not a whole number of elements is an error, never rounded.
//   - A spec is data. Expressions have no loops, no strings and no access to
//     anything but the spec's own parameters; hostile text ends in an error.
//   - Errors are of type [SpecError], one line long, and carry a hint.
//   - DataBytes of the NAS benchmarks agrees with the DTAPP columns of León
//     (2022), Tables 4.1-4.3, 5.1, 5.2 and 5.16, within 3 %, mostly 0.5 %
//     (TestMeasuredSizes logs every row).
package dataset
