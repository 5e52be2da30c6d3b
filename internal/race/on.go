//go:build race

package race

// Enabled says whether the race detector is on, which makes everything slow.
const Enabled = true
