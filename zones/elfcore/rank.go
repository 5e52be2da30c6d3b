package elfcore

import "ckpt/zones"

// rank returns the rank number from the environment, or -1. The environment lies at
// the upper end of the stack.
func (c *core) rank(stack int) (int, error) {
	a := &c.areas[stack]
	if a.Stored < a.Bytes() {
		return -1, nil // the upper end is missing
	}
	b := make([]byte, min(a.Stored, zones.StackTop))
	if err := c.read(b, c.contents[stack]+a.Stored-int64(len(b))); err != nil {
		return -1, err
	}
	return zones.RankOnStack(b), nil
}
