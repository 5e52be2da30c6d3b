//go:build !race

package iotrace

const raceEnabled = false
