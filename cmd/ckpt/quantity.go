package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ckpt/coordinator"
)

// parseDuration reads the value of a flag: one of Go's forms, or plain seconds.
func parseDuration(flag, s string) (time.Duration, error) {
	if d, err := coordinator.ParseDuration(s); err == nil {
		return d, nil
	}
	return 0, &coordinator.UsageError{
		Text: fmt.Sprintf("%s %q: invalid duration", flag, s),
		Fix:  "durations look like 90s, 5m, 1h30m, or plain seconds like 102.74",
	}
}

// parsePercent reads the value of a flag, like 30% or 30, as 0.30.
func parsePercent(flag, s string) (float64, error) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || math.IsNaN(percent) || math.IsInf(percent, 0) {
		return 0, &coordinator.UsageError{
			Text: fmt.Sprintf("%s %q: invalid percentage", flag, s),
			Fix:  "percentages look like 30% or 2.5%",
		}
	}
	return percent / 100, nil
}

// parseDurations reads several flags; one that was not given stays 0.
func parseDurations(flags []durationFlag) error {
	for _, f := range flags {
		if f.value == "" {
			continue
		}
		var err error
		if *f.to, err = parseDuration(f.name, f.value); err != nil {
			return err
		}
	}
	return nil
}

type durationFlag struct {
	name, value string
	to          *time.Duration
}

// missing is the error of a flag that must be given.
func missing(flag, example string) error {
	return &coordinator.UsageError{Text: flag + " is missing", Fix: "add " + flag + ", like " + flag + " " + example}
}

// span formats a time for reading: to the second from a minute on.
func span(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 2, 64) + " %" }
