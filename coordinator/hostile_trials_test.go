package coordinator

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"
)

// fieldTrials changes each field of the manifests, of the description, of line.json
// and of the heads in message logs. Fields are found by walking over what is there, so
// that those that come later are tried as well.
func (s *hostileStore) fieldTrials(t *testing.T, rng *rand.Rand) []*trial {
	t.Helper()
	var list []*trial
	for _, file := range filesIn(t, s.job()) {
		switch {
		case file == "job":
			list = append(list, s.jsonTrials(t, rng, file, openSealed, sealText)...)
		case s.before:
		case file == "line.json":
			list = append(list, s.jsonTrials(t, rng, file, openLine, sealLine)...)
			list = append(list, &trial{of: s, file: file, what: "/unlogged = true", change: func(b []byte) []byte {
				return sealLine(b, put(openLine(b), place{"unlogged"}, true))
			}})
		case filepath.Base(file) == "manifest" && s.triesManifest(t, file):
			list = append(list, s.jsonTrials(t, rng, file, openSealed, sealText)...)
		case filepath.Ext(file) == ".seg" && s.triesSegment(t, file):
			list = append(list, s.segmentTrials(t, file)...)
		}
	}
	return list
}

// triesManifest chooses the newest manifest, and that of another group.
func (s *hostileStore) triesManifest(t *testing.T, file string) bool {
	files := filesIn(t, s.job())
	several := slices.Contains(files, "line.json")
	all := slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) != "manifest" })
	return file == all[len(all)-1] || several && file == all[len(all)-2]
}

// triesSegment chooses the largest segment.
func (s *hostileStore) triesSegment(t *testing.T, file string) bool {
	var largest string
	size := int64(0)
	for _, f := range filesIn(t, s.job()) {
		if info, err := os.Stat(filepath.Join(s.job(), f)); err == nil && filepath.Ext(f) == ".seg" && info.Size() > size {
			largest, size = f, info.Size()
		}
	}
	return file == largest
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			list = append(list, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A place is a way into a JSON document: names of members and indices.
type place []any

func (p place) String() string {
	var b strings.Builder
	for _, step := range p {
		fmt.Fprintf(&b, "/%v", step)
	}
	return b.String()
}

// pattern is the same for all elements of a list.
func (p place) pattern() string {
	q := slices.Clone(p)
	for i, step := range q {
		if _, ok := step.(int); ok {
			q[i] = "*"
		}
	}
	return q.String()
}

// places lists all within a document but itself.
func places(doc any, at place, visit func(place, any)) {
	down := func(step, v any) {
		p := append(slices.Clone(at), step)
		visit(p, v)
		places(v, p, visit)
	}
	switch doc := doc.(type) {
	case map[string]any:
		for name, v := range doc {
			down(name, v)
		}
	case []any:
		for i, v := range doc {
			down(i, v)
		}
	}
}

// valueAt returns what is at a place.
func valueAt(doc any, p place) (any, bool) {
	for _, step := range p {
		switch d := doc.(type) {
		case map[string]any:
			name, _ := step.(string)
			v, ok := d[name]
			if !ok {
				return nil, false
			}
			doc = v
		case []any:
			i, ok := step.(int)
			if !ok || i >= len(d) {
				return nil, false
			}
			doc = d[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// absent is the value of what is taken out.
type absent struct{}

// put returns the document with another value at a place.
func put(doc any, p place, v any) any {
	if len(p) == 0 {
		return v
	}
	switch d := doc.(type) {
	case map[string]any:
		name := p[0].(string)
		if w := put(d[name], p[1:], v); w == (absent{}) {
			delete(d, name)
		} else {
			d[name] = w
		}
	case []any:
		i := p[0].(int)
		w := put(d[i], p[1:], v)
		if w == (absent{}) {
			return slices.Delete(d, i, i+1)
		}
		d[i] = w
	}
	return doc
}

// hostileValues are what is put in the place of a value.
func hostileValues(v, others any) []any {
	list := []any{absent{}, others}
	switch v := v.(type) {
	case json.Number:
		return append(list, json.Number("-1"), json.Number("0"), json.Number("2147483648"), json.Number("1152921504606846976"), "x")
	case string:
		return append(list, "", "../../x", json.Number("7"))
	case bool:
		return append(list, !v, "x")
	case []any:
		turned := slices.Clone(v)
		slices.Reverse(turned)
		return append(list, []any{}, turned, append(slices.Clone(v), v...), json.Number("7"))
	case map[string]any:
		return append(list, map[string]any{}, json.Number("7"))
	}
	return append(list, json.Number("7"))
}

// jsonTrials changes each field of a JSON document; of those in lists, one of each
// kind.
func (s *hostileStore) jsonTrials(t *testing.T, rng *rand.Rand, file string, open func([]byte) any, seal func(old []byte, doc any) []byte) []*trial {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(s.job(), file))
	if err != nil {
		t.Fatal(err)
	}
	doc := open(b)
	if again := open(seal(b, doc)); again == nil || !bytes.Equal(seal(b, again), seal(b, doc)) || len(seal(b, doc)) != len(seal(b, again)) {
		t.Fatalf("%s cannot be sealed again", file)
	}
	var others any
	if ob, err := os.ReadFile(filepath.Join(s.other(), file)); err == nil {
		others = open(ob)
	}
	byPattern := map[string][]place{}
	places(doc, nil, func(p place, _ any) { byPattern[p.pattern()] = append(byPattern[p.pattern()], p) })
	patterns := make([]string, 0, len(byPattern))
	for pattern, all := range byPattern {
		patterns = append(patterns, pattern)
		slices.SortFunc(all, func(a, b place) int { return strings.Compare(a.String(), b.String()) })
	}
	slices.Sort(patterns)
	var list []*trial
	for _, pattern := range patterns {
		all := byPattern[pattern]
		p := all[rng.IntN(len(all))]
		v, _ := valueAt(doc, p)
		other, ok := valueAt(others, p)
		for _, value := range hostileValues(v, other) {
			if value == nil && !ok || equalJSON(value, v) {
				continue
			}
			list = append(list, &trial{of: s, file: file, what: fmt.Sprintf("%v = %.60s", p, text(value)), other: s.before,
				change: func(b []byte) []byte { return seal(b, put(open(b), p, value)) }})
		}
	}
	return list
}

func text(v any) string {
	if v == (absent{}) {
		return "missing"
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func equalJSON(a, b any) bool { return text(a) == text(b) }

func decodeAny(b []byte) any {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var doc any
	if d.Decode(&doc) != nil {
		return nil
	}
	return doc
}

// openSealed reads the JSON of a manifest or of a description.
func openSealed(b []byte) any {
	at := bytes.IndexByte(b, '\n')
	return decodeAny(b[at+1:])
}

// sealText puts JSON between the first line of the old text and a digest.
func sealText(old []byte, doc any) []byte {
	body, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err)
	}
	b := append(slices.Clone(old[:bytes.IndexByte(old, '\n')+1]), append(body, '\n')...)
	sum := blake3.Sum256(b)
	return append(b, "blake3 "+hex.EncodeToString(sum[:])+"\n"...)
}

func openLine(b []byte) any {
	doc, _ := decodeAny(b).(map[string]any)
	delete(doc, "crc32c")
	return doc
}

// sealLine computes the checksum of line.json, whose members are in the order of the
// alphabet.
func sealLine(_ []byte, doc any) []byte {
	members := map[string]any{"base": nil, "incarnation": 0}
	for name, v := range doc.(map[string]any) {
		members[name] = v
	}
	if list, ok := members["taken"].([]any); ok && len(list) == 0 {
		delete(members, "taken")
	}
	b, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(bytes.TrimSuffix(b, []byte("}")), ",\"crc32c\":%d}\n", sum)
}

// The fields of the header of a segment and of the head of a frame, as package msglog
// draws them: offset and length.
var (
	segmentFields = map[string][2]int{"version": {8, 4}, "length": {12, 4}, "number": {16, 8}, "first": {24, 8}, "previous": {32, 8}, "rank": {40, 4}, "name": {44, 2}}
	frameFields   = map[string][2]int{"payload CRC": {4, 4}, "LSN": {8, 8}, "durable": {16, 8}, "seq": {24, 8}, "order": {32, 8}, "bytes": {40, 4}, "peer": {44, 4},
		"tag": {48, 4}, "kind": {52, 1}, "flags": {53, 1}, "context": {54, 1}, "zero": {55, 1}}
)

const (
	segmentHeader = 256
	frameHead     = 56
)

// segmentTrials changes each field of the header of a segment, and of its first and
// last frame, and takes frames out.
func (s *hostileStore) segmentTrials(t *testing.T, file string) []*trial {
	t.Helper()
	whole, err := os.ReadFile(filepath.Join(s.job(), file))
	if err != nil {
		t.Fatal(err)
	}
	others, _ := os.ReadFile(filepath.Join(s.other(), file))
	var list []*trial
	add := func(what string, change func(b []byte) []byte) {
		list = append(list, &trial{of: s, file: file, what: what, change: change, content: strings.Contains(what, " tag = ")})
	}
	fields := func(what string, at int, fields map[string][2]int) {
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			from, n := at+fields[name][0], fields[name][1]
			values := []uint64{1<<64 - 1, 0, 1 << 31, 1 << 60}
			if from+n <= len(others) {
				values = append(values, number(others[from:from+n]))
			}
			for _, v := range values {
				if was := number(whole[from : from+n]); v<<(64-8*n) == was<<(64-8*n) {
					continue
				}
				add(fmt.Sprintf("%s %s = %d", what, name, int64(v)), func(b []byte) []byte {
					frames := framesOf(b)
					copy(b[from:from+n], binary.LittleEndian.AppendUint64(nil, v))
					return sealSegment(b, frames)
				})
			}
		}
	}
	fields("header", 0, segmentFields)
	frames := framesOf(whole)
	for i, at := range frames {
		if i > 0 && i < len(frames)-1 {
			continue
		}
		fields(fmt.Sprintf("frame %d of %d", i+1, len(frames)), at, frameFields)
		add(fmt.Sprintf("frame %d of %d missing", i+1, len(frames)), func(b []byte) []byte {
			end := len(b)
			if i+1 < len(frames) {
				end = frames[i+1]
			}
			b = slices.Delete(b, at, end)
			return sealSegment(b, framesOf(b))
		})
	}
	if others != nil {
		add("that of another job", func([]byte) []byte { return others })
	}
	return list
}

// number reads up to 8 bytes.
func number(b []byte) uint64 {
	var all [8]byte
	copy(all[:], b)
	return binary.LittleEndian.Uint64(all[:])
}

// framesOf returns where the frames of a segment begin.
func framesOf(b []byte) []int {
	var list []int
	for at := segmentHeader; at+frameHead <= len(b); {
		list = append(list, at)
		at += frameHead + (int(binary.LittleEndian.Uint32(b[at+40:]))+7)&^7
	}
	return list
}

// sealSegment computes the checksums of header and heads.
func sealSegment(b []byte, frames []int) []byte {
	le, table := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	salt := crc32.Checksum(b[:segmentHeader-4], table)
	le.PutUint32(b[segmentHeader-4:], salt)
	for _, at := range frames {
		le.PutUint32(b[at:], crc32.Update(salt, table, b[at+4:at+frameHead]))
	}
	return b
}

// flipTrial flips a bit of any file, or cuts it.
func (s *hostileStore) flipTrial(t *testing.T, rng *rand.Rand) *trial {
	t.Helper()
	byKind := map[string][]string{"format": {"../../format"}}
	for _, file := range filesIn(t, s.job()) {
		kind := filepath.Base(file)
		if ext := filepath.Ext(file); ext == ".img" || ext == ".seg" || ext == ".trace" {
			kind = ext
			if strings.HasPrefix(file, "0000") {
				kind = "library"
			}
		}
		if info, err := os.Stat(filepath.Join(s.job(), file)); err == nil && info.Size() > 0 {
			byKind[kind] = append(byKind[kind], file)
		}
	}
	kinds := make([]string, 0, len(byKind))
	for kind := range byKind {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	files := byKind[kinds[rng.IntN(len(kinds))]]
	file := files[rng.IntN(len(files))]
	info, err := os.Stat(filepath.Join(s.job(), file))
	if err != nil {
		t.Fatal(err)
	}
	at, bit := rng.Int64N(info.Size()), rng.IntN(8)
	if rng.IntN(4) == 0 {
		return &trial{of: s, file: file, what: fmt.Sprintf("cut at %d", at), change: func(b []byte) []byte { return b[:at] }}
	}
	return &trial{of: s, file: file, what: fmt.Sprintf("bit %d of byte %d", bit, at), change: func(b []byte) []byte {
		b[at] ^= 1 << bit
		return b
	}}
}

// olden returns the same store as it was written before manifests had the digest of
// the description.
func (s *hostileStore) olden(t *testing.T) *hostileStore {
	t.Helper()
	old := &hostileStore{name: s.name + " of before", dir: filepath.Join(t.TempDir(), "store"), want: s.want, before: true}
	if err := cloneStore(s.dir, old.dir, ""); err != nil {
		t.Fatal(err)
	}
	for _, file := range filesIn(t, old.job()) {
		if filepath.Base(file) != "manifest" {
			continue
		}
		name := filepath.Join(old.job(), file)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, _ := openSealed(b).(map[string]any)
		if doc["job_blake3"] == nil {
			t.Fatalf("%s has no digest of the description", file)
		}
		delete(doc, "job_blake3")
		if err := os.WriteFile(name, sealText(b, doc), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return old
}
