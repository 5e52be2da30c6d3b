package iosched

import (
	"testing"
	"time"
)

func TestFIFO(t *testing.T) {
	p, err := New("fifo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := NewController("disk", p)
	var offsets []int64
	for _, offset := range []int64{30, 10, 20} {
		if err := c.Add(0, &Request{App: "a", File: "f", Offset: offset, Bytes: 10}); err != nil {
			t.Fatal(err)
		}
	}
	for c.Len() > 0 {
		grants, wake := c.Next(0)
		if len(grants) != 1 || wake != 0 {
			t.Fatalf("%d grants, wake at %v", len(grants), wake)
		}
		offsets = append(offsets, grants[0].Offset)
		c.Done(0, time.Second, grants[0])
	}
	if len(offsets) != 3 || offsets[0] != 30 || offsets[1] != 10 || offsets[2] != 20 {
		t.Errorf("served %v, want them in the order in which they came", offsets)
	}
}
