package strace

// A birth is a fork as the text of the parent has it.
type birth struct {
	parent *taskText
	at     int64 // since the midnight before the parent began
}

// pastMidnight finds the day on which each text begins, of times without a date. A
// child begins when it is made; for that the texts are read once more. Those that
// none has made are of one day, or past midnight if another begins more than half
// a day later, and their own times do not go on until then.
func (m *taskMerge) pastMidnight() error {
	dated := true
	for _, s := range m.texts {
		dated = dated && s.entry.clock != dayClock
	}
	if dated {
		return nil
	}
	births := make(map[int64]birth)
	ends := make(map[*taskText]int64)
	for _, s := range m.texts {
		end, err := s.survey(births)
		if err != nil {
			return err
		}
		ends[s] = end
	}
	last := int64(0)
	for _, s := range m.texts {
		if _, made := births[s.PID]; !made {
			last = max(last, s.at)
		}
	}
	for _, s := range m.texts {
		if _, made := births[s.PID]; !made && last-s.at > dayLength/2 && ends[s] < last {
			s.seen.day++
		}
	}
	known := make(map[*taskText]bool)
	var find func(*taskText)
	find = func(s *taskText) {
		b, made := births[s.PID]
		if known[s] || !made {
			return
		}
		known[s] = true // also if a number that is used again makes it its own ancestor
		find(b.parent)
		born := b.at + b.parent.seen.day*dayLength
		s.seen.day = max(0, (born-s.at+dayLength/2)/dayLength)
	}
	for _, s := range m.texts {
		find(s)
	}
	for _, s := range m.texts {
		s.at += s.seen.day * dayLength
		s.due = s.at
	}
	return nil
}

// survey finds the children that a text tells of, and returns the time at its end.
// What is wrong with it, will be seen when it is read.
func (s *taskText) survey(births map[int64]birth) (int64, error) {
	if err := s.open(nil); err != nil {
		return 0, err
	}
	var seen course
	for {
		l, err := s.in.Next()
		if err != nil {
			break
		}
		e := split(l)
		if e.clock != dayClock {
			continue
		}
		at := seen.time(&e)
		if e.kind != callLine && e.kind != resumedLine || !family(string(e.name)) {
			continue
		}
		if _, after, ok := splitArgs(nil, e.text); ok {
			if r, ok := parseResult(after); ok && r.value > 0 && r.value != s.PID {
				births[r.value] = birth{s, at}
			}
		}
	}
	return seen.last, s.close()
}

// close gives back what a text holds that is to be read again, of which there may
// be many.
func (s *taskText) close() error {
	err := s.file.Close()
	s.file, s.in, s.line = nil, nil, nil
	s.entry = entry{clock: s.entry.clock} // its parts are of the line
	return err
}
