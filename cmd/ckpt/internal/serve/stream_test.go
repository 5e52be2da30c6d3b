package serve

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestEvents: a stream begins with all jobs, and has each change.
func TestEvents(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	name := jobOf(t, s)
	web := httptest.NewServer(h)
	defer web.Close()
	go s.watch.run(t.Context())
	r, err := http.NewRequestWithContext(t.Context(), "GET", web.URL+"/api/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+readToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	seen := make(chan string, 1)
	go func() {
		b := make([]byte, 1<<20)
		text := ""
		for {
			n, err := resp.Body.Read(b)
			text += string(b[:n])
			if i := strings.LastIndex(text, "\n\n"); i >= 0 {
				seen <- text[:i]
				text = text[i+2:]
			}
			if err != nil {
				close(seen)
				return
			}
		}
	}()
	if first := <-seen; !strings.Contains(first, `"job":"`+name+`"`) {
		t.Errorf("the stream begins with %.300s", first)
	}
	if err := os.RemoveAll(s.stores[0].Dir + "/jobs/" + name); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`data: {"store":"golden","job":%q}`, name)
	for text := range seen {
		if strings.Contains(text, want) {
			return
		}
	}
	t.Errorf("the stream ended without %s", want)
}

// A deadlined is an answer that notes its deadlines, and says when it was sent.
type deadlined struct {
	*httptest.ResponseRecorder
	read, write []time.Time
	sent        chan struct{}
}

func (d *deadlined) SetReadDeadline(t time.Time) error  { d.read = append(d.read, t); return nil }
func (d *deadlined) SetWriteDeadline(t time.Time) error { d.write = append(d.write, t); return nil }
func (d *deadlined) Flush()                             { d.sent <- struct{}{} }

// TestStreamDeadlines: the deadline for reading a request does not end its stream, and each write has
// a deadline of its own.
func TestStreamDeadlines(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	s.watch.look(t.Context(), true)
	ctx, leave := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", "http://127.0.0.1:7070/api/events", nil)
	r.Header.Set("Authorization", "Bearer "+readToken)
	w, over := &deadlined{ResponseRecorder: httptest.NewRecorder(), sent: make(chan struct{})}, make(chan struct{})
	go func() { h.ServeHTTP(w, r); close(over) }()
	<-w.sent
	s.watch.tell(Change{Store: "golden", Job: "gone"})
	<-w.sent
	leave()
	<-over
	if len(w.read) != 1 || !w.read[0].IsZero() {
		t.Errorf("deadlines for reading %v, want none", w.read)
	}
	if text := w.Body.String(); len(w.write) != strings.Count(text, "\n\n") || !strings.Contains(text, `"job":"gone"`) {
		t.Errorf("%d deadlines for\n%s", len(w.write), text)
	}
}

// TestStoreGone: the jobs of a store that has gone, or whose jobs cannot be listed, leave the stream,
// and its metrics say so, until it is back.
func TestStoreGone(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	name, dir := jobOf(t, s), s.stores[0].Dir
	readable := func(want string) {
		t.Helper()
		if got := ask(h, readToken, "GET", "/metrics", "").Body.String(); !strings.Contains(got, "\nckpt_store_readable{store=\"golden\"} "+want+"\n") {
			t.Errorf("ckpt_store_readable is not %s in\n%s", want, got)
		}
	}
	for _, path := range []string{dir, jobsOf(dir)} {
		readable("1")
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		ch, _ := s.watch.listen()
		s.watch.look(t.Context(), path != dir)
		if c := <-ch; c.Job != name || c.Status != nil {
			t.Errorf("%+v, want that the job is gone", c)
		}
		s.watch.leave(ch)
		if _, now := s.watch.listen(); len(now) > 0 {
			t.Errorf("a new stream begins with %+v", now)
		}
		readable("0")
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
	readable("1")
	if _, now := s.watch.listen(); len(now) != 1 {
		t.Errorf("the store is back, and a stream begins with %+v", now)
	}
}

// A stalled is an answer whose reader takes nothing for a time.
type stalled struct {
	*httptest.ResponseRecorder
	begun, on chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	select {
	case s.begun <- struct{}{}:
		<-s.on
	case <-s.on:
	}
	return s.ResponseRecorder.Write(p)
}

// TestStalledReaders: readers that take nothing keep no other sender from an answer.
func TestStalledReaders(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	begun, on := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	defer all.Wait()
	defer close(on)
	for _, path := range []string{"/api/stores/golden/jobs", "/metrics"} {
		for range cap(s.places) {
			all.Go(func() {
				r := httptest.NewRequest("GET", "http://127.0.0.1:7070"+path, nil)
				r.Header.Set("Authorization", "Bearer "+readToken)
				h.ServeHTTP(stalled{httptest.NewRecorder(), begun, on}, r)
			})
			<-begun
		}
		if w := ask(h, readToken, "GET", path, ""); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
