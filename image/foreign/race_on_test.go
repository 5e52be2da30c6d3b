//go:build race

package foreign_test

const raceEnabled = true
