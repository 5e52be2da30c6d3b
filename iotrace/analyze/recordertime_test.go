package analyze

import (
	"strconv"
	"testing"
	"time"

	"ckpt/iotrace"
)

// TestRecorderTime: what the recorder takes of each request is no gain, and is reported.
func TestRecorderTime(t *testing.T) {
	const took = 50 * time.Microsecond
	gain := func(own ...time.Duration) (float64, *Report) {
		tr := &iotrace.Trace{Ranks: make([]iotrace.Rank, 1), Files: []string{"f"}}
		at := int64(0)
		for i := range int64(2000) {
			tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Read, Offset: 512 * i, Bytes: 512, Start: at, End: at + int64(took)})
			at += 2 * int64(took)
		}
		for _, d := range own {
			tr.Properties = append(tr.Properties, iotrace.Property{Name: iotrace.RecorderTime, Value: strconv.FormatInt(int64(d), 10)})
		}
		r := Analyze(tr, Options{})
		for _, in := range r.Insights {
			if in.Code == "CK13" {
				return *in.Gain, r
			}
		}
		return 0, r
	}
	all, r := gain()
	if all == 0 || r.RecorderCall != 0 {
		t.Fatalf("without a recorder's time the gain is %g s, and %g s of each call are the recorder's", all, r.RecorderCall)
	}
	most, r := gain(40*time.Microsecond, 45*time.Microsecond) // a trace of two
	if most <= 0 || most > 0.21*all || r.RecorderCall != 40e-6 {
		t.Errorf("if 40 of 50 µs are the recorder's, the gain is %g s of %g s, with %g s of each call", most, all, r.RecorderCall)
	}
	if none, _ := gain(took); none != 0 {
		t.Errorf("if all time is the recorder's, the gain is %g s", none)
	}
}
