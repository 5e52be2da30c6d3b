package supervisor

import (
	"encoding/binary"
	"io"
	"slices"

	"ckpt/coordinator/protocol/channel"
)

// image is one rank's part of a checkpoint.
type image struct {
	app   appState
	inbox []letterIn
	state *channel.State
	log   int // position in the log up to which its frames are not needed
	// appended is how far the log has to be durable before the image counts.
	appended uint64
}

// stored is a committed checkpoint of a group.
type stored struct {
	group, number, iter int
	images              []*image // by the group's order
	damaged             bool
}

func (c *stored) vectors() []channel.Vector {
	var vs []channel.Vector
	for _, im := range c.images {
		vs = append(vs, im.state.Vector)
	}
	return vs
}

// disk is what survives everything.
type disk struct {
	checkpoints map[int]*stored
	writing     map[int][]*image // durable images of checkpoints that are not committed
	used        int              // the greatest number committed
	base        []int
	printed     []uint64
	incarnation int // the greatest used
	logs        []simLog
}

// simLog is the log of a rank. Frames have positions that never change.
type simLog struct {
	frames  []channel.Frame
	first   int // position of the first frame
	durable int // position behind the last frame that no crash can take
}

func (l *simLog) end() int { return l.first + len(l.frames) }

// crash loses some of what was not durable.
func (l *simLog) crash(w *world) {
	if n := l.end() - l.durable; n > 0 {
		l.frames = l.frames[:len(l.frames)-n+w.rng.IntN(n+1)]
	}
	l.durable = l.end()
}

// truncate drops the frames before a position.
func (l *simLog) truncate(pos int) {
	if pos > l.first {
		l.frames = l.frames[min(pos-l.first, len(l.frames)):]
		l.first = pos
	}
}

// reader returns the durable frames one after the other.
func (l *simLog) reader() func() (channel.Frame, error) {
	i := 0
	return func() (channel.Frame, error) {
		if i >= l.durable-l.first {
			return channel.Frame{}, io.EOF
		}
		i++
		return l.frames[i-1], nil
	}
}

// numbers returns the committed checkpoints of a group, ascending.
func (d *disk) numbers(group int) []int {
	var list []int
	for n, c := range d.checkpoints {
		if c.group == group {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// image returns what a rank goes back to; nil if it is not there.
func (w *world) image(rank, number int) *image {
	g := w.groupOf(rank)
	if number == 0 {
		e, err := channel.New(w.endpointConfig(rank))
		if err != nil {
			w.failf("%v", err)
		}
		return &image{app: newAppState(rank, w.ranks), state: e.Snapshot()}
	}
	c := w.disk.checkpoints[number]
	if c == nil || c.group != g.id {
		return nil
	}
	return c.images[slices.Index(g.ranks, rank)]
}

// letters are 16 bytes in a message of a channel.

func encodeLetter(l letter) []byte {
	b := make([]byte, 0, 16)
	b = binary.LittleEndian.AppendUint64(b, l.sum)
	return binary.LittleEndian.AppendUint64(b, l.trace)
}

func decodeLetter(b []byte) letter {
	return letter{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}
