package recovery

// Domino is the domino effect of the textbooks, in the manner of the survey of
// Elnozahy, Alvisi, Wang and Johnson (2002): three ranks checkpoint on their
// own, each at an unlucky moment. When rank 2 fails, a message that it has not
// sent any more drives rank 1 back, that one rank 0, and so on, until all three
// stand at the beginning in spite of the seven checkpoints that they have
// stored.
func Domino() *History {
	r := NewRecorder(3)
	deliver := func(from, to int) {
		r.Send(from, to)
		r.Receive(to, from)
		r.Iterate(to)
	}
	deliver(0, 1)
	r.Checkpoint(1)
	deliver(1, 0)
	r.Checkpoint(0)
	deliver(0, 1)
	r.Checkpoint(1)
	deliver(1, 2)
	r.Checkpoint(2)
	deliver(2, 1)
	r.Checkpoint(1)
	deliver(1, 0)
	r.Checkpoint(0)
	deliver(0, 1)
	r.Checkpoint(2)
	deliver(2, 1)
	return r.History()
}

// Zigzag is a cycle in the manner of Netzer and Xu (1995). No chain of causes
// leads from checkpoint 1 of rank 0 to itself, but a zigzag path does: rank 0
// sends to rank 1 after the checkpoint; rank 1 had sent to rank 2 before that
// arrives, but in the same interval; and so had rank 2 to rank 0, which has
// received it before the checkpoint. If that one stays, the message of rank 0
// to rank 1 is either sent or not, and both make an orphan. It is useless.
func Zigzag() *History {
	r := NewRecorder(3)
	r.Checkpoint(1)
	r.Send(2, 0)
	r.Iterate(1)
	r.Receive(0, 2)
	r.Send(1, 2)
	r.Iterate(0)
	r.Checkpoint(0)
	r.Receive(2, 1)
	r.Send(0, 1)
	r.Iterate(2)
	r.Checkpoint(2)
	r.Receive(1, 0)
	r.Iterate(1)
	r.Iterate(0)
	return r.History()
}

// Relay is the worst case for any number of ranks and laps: a token goes round,
// and each rank checkpoints when it has the token. Whichever rank fails when it
// has handed the token on, all checkpoints of all ranks are lost, one by one.
func Relay(ranks, laps int) *History {
	r := NewRecorder(ranks)
	for lap := range laps {
		for i := range ranks {
			if lap > 0 || i > 0 {
				r.Receive(i, (i+ranks-1)%ranks)
			}
			r.Iterate(i)
			r.Checkpoint(i)
			r.Send(i, (i+1)%ranks)
		}
	}
	r.Receive(0, ranks-1)
	return r.History()
}
