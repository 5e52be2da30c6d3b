package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/container"
)

// A problem is an error as RFC 9457 has it, with the hint and the exit status of ckpt.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	Code   int    `json:"code,omitempty"`
	Result any    `json:"result,omitempty"` // of a command that failed and has one, as of a verification
}

func problemOf(err error, result any) *problem {
	if too := (*http.MaxBytesError)(nil); errors.As(err, &too) {
		return &problem{Title: http.StatusText(http.StatusRequestEntityTooLarge), Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("the body is larger than %d bytes", too.Limit)}
	}
	status := statusOf(err)
	return &problem{Title: http.StatusText(status), Status: status, Detail: ui.OneLine(err.Error()), Hint: ui.HintOf(err), Code: ui.ExitCode(err), Result: result}
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // the result has what JSON cannot say
		p.Result = nil
		body, _ = json.Marshal(p)
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// fail answers with an error of the service itself.
func fail(w http.ResponseWriter, status int, detail, hint string) {
	(&problem{Title: http.StatusText(status), Status: status, Detail: detail, Hint: hint}).write(w)
}

// respond answers with a result.
func respond(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		fail(w, http.StatusInternalServerError, "the result is no JSON: "+err.Error(), "")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// warnings keep what a command tells on standard error, line by line.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *warnings) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := mostWarnings - s.text.Len(); room > 0 {
		s.text.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

const mostWarnings = 4 << 10

func (s *warnings) lines() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.text.String()) {
		if line = strings.TrimPrefix(strings.TrimSpace(line), "ckpt: "); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// call runs a command line in this process, and returns what it would print.
func (s *server) call(ctx context.Context, args []string, advance func(string, int64, int64)) (result any, told []string, err error) {
	said := &warnings{}
	g := &ui.Globals{Streams: ui.Streams{In: strings.NewReader(""), Out: io.Discard, Err: said}, Advance: advance}
	g.Result = func(v any) { result = v }
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(s.g.Err, "ckpt: serve: %v: %v\n%s", args, p, debug.Stack())
			err = errors.New("the service made a mistake; its standard error has more")
		}
		told = said.lines()
	}()
	err = s.tree.Call(ctx, g, args)
	return result, told, err
}

// parameters reads the parameters of a request: a POST has them in its body, an object of JSON, every
// other request in its query. A parameter in the other place is refused, since it would not count.
func parameters(r *http.Request) (map[string][]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, ui.BadUsage(fmt.Sprintf("the query cannot be read: %v", err), "write % as %25 and ; as %3B")
	}
	body := map[string][]string{}
	if r.Method == http.MethodPost || r.ContentLength != 0 {
		if err := readBody(r, body); err != nil {
			return nil, err
		}
	}
	list, other, place := query, body, "the query"
	if r.Method == http.MethodPost {
		list, other, place = body, query, "the body, an object of JSON"
	}
	for _, name := range slices.Sorted(maps.Keys(other)) {
		return nil, ui.BadUsage(fmt.Sprintf("parameter %.80q of a %s belongs into %s", name, r.Method, place), "write it there")
	}
	return list, nil
}

// values reads the parameters of an operation, with the words of its path.
func values(r *http.Request, o *operation) (map[string][]string, error) {
	list, err := parameters(r)
	if err != nil {
		return nil, err
	}
	for _, w := range append(o.words(), "store") {
		if o.inPath(w) && list[w] != nil {
			return nil, ui.BadUsage(fmt.Sprintf("parameter %s stands in the path", w), "leave it out")
		}
		if o.inPath(w) && w != "store" {
			list[w] = []string{r.PathValue(w)}
		}
	}
	return list, nil
}

func readBody(r *http.Request, list map[string][]string) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return ui.BadUsage("the body is not of the type application/json", "send an object of JSON, with the header Content-Type: application/json")
	}
	var body map[string]any
	dec := json.NewDecoder(r.Body)
	dec.UseNumber()
	err := dec.Decode(&body)
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			err = nil
		} else if err == nil {
			err = errors.New("there is more after the object")
		}
	}
	if too := (*http.MaxBytesError)(nil); errors.As(err, &too) {
		return err
	}
	if err != nil {
		return ui.BadUsage("the body is no object of JSON: "+ui.OneLine(err.Error()), `send {} without parameters`)
	}
	for name, v := range body {
		many, ok := v.([]any)
		if !ok {
			many = []any{v}
		}
		list[name] = []string{}
		for _, one := range many {
			text, err := textOf(name, one)
			if err != nil {
				return err
			}
			list[name] = append(list[name], text)
		}
	}
	return nil
}

// textOf is a value of JSON as a flag takes it.
func textOf(name string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		if f, err := v.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53 { // 4.0 is an integer, too
			return strconv.FormatInt(int64(f), 10), nil
		}
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", ui.BadUsage(fmt.Sprintf("parameter %.80q is neither a text, a number, nor true or false", name), "write it as a flag of ckpt takes it")
}

// longestAnswer is how long a request waits for a place, and then for its answer.
const longestAnswer = 30 * time.Second

// handler answers the requests of an operation.
func (s *server) handler(o *operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		at, dir, ok := s.storeOf(w, r)
		if !ok {
			return
		}
		list, err := values(r, o)
		var args []string
		if err == nil {
			args, err = s.arguments(o, dir, list)
		}
		if err != nil {
			problemOf(err, nil).write(w)
			return
		}
		if o.how != answer {
			s.begin(w, o, at, list, args)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), longestAnswer)
		defer cancel()
		select {
		case s.places <- struct{}{}:
		case <-ctx.Done():
			w.Header().Set("Retry-After", "5")
			fail(w, http.StatusServiceUnavailable, "the service is busy", "ask again later")
			return
		}
		result, told, err := s.call(ctx, args, nil)
		// The place is free before the answer is written: its reader may be slow.
		<-s.places
		// The rest of a damaged list is worth having.
		if ui.ExitCode(err) == ui.ExitDamage && reflect.ValueOf(result).Kind() == reflect.Slice {
			told, err = append(told, ui.OneLine(err.Error())), nil
		}
		for _, line := range told {
			w.Header().Add("Ckpt-Warning", line)
		}
		if err != nil {
			problemOf(err, result).write(w)
			return
		}
		respond(w, http.StatusOK, result)
	}
}

// storeOf finds the store that a path names, "" if the path names none. A request about a job needs
// the right to read all its files, a verification of all jobs the right to read all of them.
func (s *server) storeOf(w http.ResponseWriter, r *http.Request) (name, dir string, ok bool) {
	name = r.PathValue("store")
	if name == "" {
		return "", "", true
	}
	for _, st := range s.stores {
		if st.Name != name || !s.sees(r.Context(), st.Dir) {
			continue
		}
		job := r.PathValue("job")
		files := filepath.Join(jobsOf(st.Dir), job)
		if all := container.ValidJobName(job) || job == "" && r.Method == http.MethodPost; all && !looked(r.Context(), files, (*peer).readsAll) {
			fail(w, http.StatusForbidden, "the sender may not read all files that this needs", "their owner lets others read them with chmod -R go+rX "+files)
			return "", "", false
		}
		return name, st.Dir, true
	}
	fail(w, http.StatusNotFound, fmt.Sprintf("this service has no store %.80q", name), "GET /api/stores lists the stores")
	return "", "", false
}
