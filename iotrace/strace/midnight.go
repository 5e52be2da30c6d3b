package strace

// A birth is a fork in the text of the parent.
type birth struct {
	parent *taskText
	at     int64 // since the midnight before the parent's text begins
}

// pastMidnight finds the day on which each text without dates begins, by reading the
// texts once more. A child begins when its parent creates it. Texts without a parent
// are of one day; such a text is past midnight if another begins more than half a day
// later and its own times do not run past midnight before that.
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
		known[s] = true // also if a reused number makes it its own ancestor
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

// survey collects the children in a text, and returns the time at its end. Errors are
// left to the reading proper.
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

// close releases the memory and the file of a text that is read again later. There may
// be many texts.
func (s *taskText) close() error {
	err := s.file.Close()
	s.file, s.in, s.line = nil, nil, nil
	s.entry = entry{clock: s.entry.clock} // the parts share the line's memory
	return err
}
