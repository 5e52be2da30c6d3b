package image

import (
	"fmt"
	"strconv"
	"strings"
)

// Files in the directory of a job that each store has by itself: RunName says where the
// coordinator is, and NextName what the next stores have.
const (
	RunName  = "run.json"
	NextName = "next.json"
)

// A Next is a store into which the checkpoints of a job are copied on from its own store, behind
// the running job.
type Next struct {
	Store string `json:"store"` // directory, perhaps in an object storage
	// Every has one checkpoint of so many copied on, and each of those; 0: the newest, one after
	// the other, without those that a newer one overtakes.
	Every int `json:"every,omitempty"`
	// Keep says which checkpoints stay there; zero: all.
	Keep Retention `json:"keep,omitzero"`
}

// ParseNext reads STORE[,every=N][,keep=N][,keep-hourly=N][,keep-daily=N].
func ParseNext(text string) (n Next, err error) {
	set := map[string]*int{"every": &n.Every, "keep": &n.Keep.Last, "keep-hourly": &n.Keep.Hourly, "keep-daily": &n.Keep.Daily}
	n.Store = text
	for {
		i := strings.LastIndexByte(n.Store, ',')
		name, value, _ := strings.Cut(n.Store[i+1:], "=")
		to := set[name]
		if i < 0 || to == nil {
			break
		}
		if *to != 0 {
			return n, fmt.Errorf("%s is given twice", name)
		}
		if *to, err = strconv.Atoi(value); err != nil || *to < 1 {
			return n, fmt.Errorf("%s=%s: want a number from 1", name, value)
		}
		n.Store = n.Store[:i]
	}
	if n.Store == "" {
		return n, fmt.Errorf("the store is missing")
	}
	if n.Keep.Periods() {
		n.Keep.Last = max(1, n.Keep.Last) // the newest is the newest of its hour and day
	}
	return n, n.Check()
}

// Check refuses settings that are out of range.
func (n Next) Check() error {
	if n.Every < 0 || strings.TrimSpace(n.Store) == "" || n.Keep.Last == 0 && n.Keep.Periods() {
		return fmt.Errorf("a next store %q of every %d checkpoints is out of range", n.Store, n.Every)
	}
	return n.Keep.Check()
}

// Due lists the checkpoints, of all of a store, that are to be copied on, ascending. The next
// store has had newest, 0 for none.
func (n Next) Due(all []int, newest int) (due []int) {
	last := newest
	for i, number := range all {
		switch {
		case number <= newest:
		case n.Every == 0 && i == len(all)-1, n.Every > 0 && number-last >= n.Every:
			due, last = append(due, number), number
		}
	}
	return due
}
