package analyze

import "ckpt/iotrace/analyze/pattern"

// A tally counts requests by pattern.
type tally struct {
	pattern.Counts
	strides *counter // steps of strided requests
	outers  *counter
	inners  *counter
}

func (t *tally) add(v pattern.Verdict, requests int64) {
	t.Add(v.Detail, requests)
	if t.strides == nil {
		return
	}
	switch v.Detail {
	case pattern.StridedNested:
		t.outers.add(v.Outer, requests)
		t.inners.add(v.Inner, requests)
		t.strides.add(v.Stride, requests)
	case pattern.StridedSimple:
		t.strides.add(v.Stride, requests)
	}
}

// counters makes the tally count strides.
func (t *tally) counters() {
	t.strides, t.outers, t.inners = newCounter(64), newCounter(64), newCounter(64)
}

// reset empties a tally that counts strides.
func (t *tally) reset() {
	t.Counts = pattern.Counts{}
	t.strides.reset()
	t.outers.reset()
	t.inners.reset()
}

func (t *tally) merge(o *tally) {
	t.Merge(&o.Counts)
	if t.strides != nil && o.strides != nil {
		t.strides.merge(o.strides)
		t.outers.merge(o.outers)
		t.inners.merge(o.inners)
	}
}
