package objecttest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/objectfs"
)

// Server answers requests of S3 from a Memory, whatever bucket and credentials they name.
type Server struct{ m atomic.Pointer[Memory] }

// Use has later requests meet another Memory.
func (s *Server) Use(m *Memory) { s.m.Store(m) }

// markHeader is the metadata in which objectfs keeps the mark of a writer.
const markHeader = "X-Amz-Meta-Ckpt-Writer"

const sumHeader = "X-Amz-Checksum-Crc32c"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := s.m.Load()
	_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	w.Header().Set("Date", m.now().UTC().Format(http.TimeFormat))
	body, err := io.ReadAll(r.Body)
	if sum := r.Header.Get(sumHeader); err == nil && sum != "" && sum != sumText(body) {
		answer(w, http.StatusBadRequest, failure{Code: "BadDigest"})
		return
	}
	query := r.URL.Query()
	what := r.Method
	for _, name := range []string{"list-type", "uploads", "uploadId"} {
		if query.Has(name) {
			what += " " + name
		}
	}
	if err == nil {
		err = m.serve(w, r, what, key, body)
	}
	switch {
	case errors.Is(err, objectfs.ErrPrecondition):
		answer(w, http.StatusPreconditionFailed, failure{Code: "PreconditionFailed"})
	case errors.Is(err, fs.ErrNotExist) && query.Has("uploadId"):
		answer(w, http.StatusNotFound, failure{Code: "NoSuchUpload"})
	case errors.Is(err, fs.ErrNotExist):
		answer(w, http.StatusNotFound, failure{Code: "NoSuchKey"})
	case err != nil:
		answer(w, http.StatusBadRequest, failure{Code: "InvalidRequest", Message: err.Error()})
	}
}

func (m *Memory) serve(w http.ResponseWriter, r *http.Request, what, key string, body []byte) error {
	ctx, query := r.Context(), r.URL.Query()
	id := query.Get("uploadId")
	when := objectfs.Condition{New: r.Header.Get("If-None-Match") == "*", Tag: r.Header.Get("If-Match")}
	switch what {
	case "HEAD", "GET":
		return m.serveObject(w, r, key)
	case "PUT":
		o, err := m.Put(ctx, key, body, r.Header.Get(markHeader), when)
		w.Header().Set("ETag", o.Tag)
		return err
	case "DELETE":
		err := m.Delete(ctx, key)
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	case "GET list-type":
		return m.serveList(w, r)
	case "POST uploads":
		id, err := m.Begin(ctx, key, r.Header.Get(markHeader))
		return reply(w, err, began{UploadID: id})
	case "PUT uploadId":
		number, err := strconv.Atoi(query.Get("partNumber"))
		if err != nil {
			return err
		}
		p, err := m.Part(ctx, key, id, number, body, 0)
		w.Header().Set("ETag", p.Tag)
		w.Header().Set(sumHeader, sumText(body))
		return err
	case "POST uploadId":
		var asked completion
		if err := xml.Unmarshal(body, &asked); err != nil {
			return err
		}
		parts := make([]objectfs.Part, 0, len(asked.Parts))
		for _, p := range asked.Parts {
			parts = append(parts, objectfs.Part{Number: p.PartNumber})
		}
		o, err := m.Complete(ctx, key, id, parts, when)
		return reply(w, err, completed{ETag: o.Tag})
	case "DELETE uploadId":
		err := m.Abort(ctx, key, id)
		if err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
		return err
	case "GET uploads":
		all, err := m.Uploads(ctx, query.Get("prefix"))
		var list uploads
		for _, u := range all {
			list.Uploads = append(list.Uploads, oneUpload{u.Key, u.ID, u.Begun})
		}
		return reply(w, err, list)
	}
	return fmt.Errorf("%s is not known here", what)
}

// serveObject answers a GET or HEAD.
func (m *Memory) serveObject(w http.ResponseWriter, r *http.Request, key string) error {
	off, n, status := int64(0), int64(1)<<40, http.StatusOK
	if asked := r.Header.Get("Range"); asked != "" {
		var last int64
		if _, err := fmt.Sscanf(asked, "bytes=%d-%d", &off, &last); err != nil {
			return err
		}
		n, status = last-off+1, http.StatusPartialContent
	}
	body, o, err := m.Get(r.Context(), key, off, n, r.Header.Get("If-Match"))
	if err != nil {
		return err
	}
	if status == http.StatusPartialContent && off >= o.Size {
		answer(w, http.StatusRequestedRangeNotSatisfiable, failure{Code: "InvalidRange"})
		return nil
	}
	n = min(n, o.Size-off)
	h := w.Header()
	h.Set("ETag", o.Tag)
	h.Set("Last-Modified", o.Modified.UTC().Format(http.TimeFormat))
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	if h.Set(markHeader, o.Mark); status == http.StatusPartialContent {
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", off, off+n-1, o.Size))
	}
	if w.WriteHeader(status); r.Method == http.MethodHead {
		return nil
	}
	_, err = io.Copy(w, body)
	return err
}

func (m *Memory) serveList(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	most, err := strconv.Atoi(query.Get("max-keys"))
	if err != nil {
		return err
	}
	from, err := base64.RawURLEncoding.DecodeString(query.Get("continuation-token"))
	if err != nil {
		return err
	}
	page, err := m.List(r.Context(), query.Get("prefix"), string(from), query.Get("delimiter") == "", most)
	list := objects{IsTruncated: page.Next != "", Next: base64.RawURLEncoding.EncodeToString([]byte(page.Next))}
	for _, o := range page.Objects {
		list.Contents = append(list.Contents, oneObject{o.Key, o.Modified, o.Tag, o.Size})
	}
	for _, p := range page.Prefixes {
		list.Prefixes = append(list.Prefixes, onePrefix{p})
	}
	return reply(w, err, list)
}

// Answers of S3, as far as objectfs reads them.
type (
	failure struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}
	objects struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Next        string `xml:"NextContinuationToken"`
		Contents    []oneObject
		Prefixes    []onePrefix `xml:"CommonPrefixes"`
	}
	oneObject struct {
		Key          string
		LastModified time.Time
		ETag         string
		Size         int64
	}
	onePrefix struct{ Prefix string }
	uploads   struct {
		XMLName xml.Name    `xml:"ListMultipartUploadsResult"`
		Uploads []oneUpload `xml:"Upload"`
	}
	oneUpload struct {
		Key       string
		UploadID  string `xml:"UploadId"`
		Initiated time.Time
	}
	began struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		UploadID string   `xml:"UploadId"`
	}
	completed struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		ETag    string
	}
	completion struct {
		Parts []struct{ PartNumber int } `xml:"Part"`
	}
)

func reply(w http.ResponseWriter, err error, what any) error {
	if err == nil {
		answer(w, http.StatusOK, what)
	}
	return err
}

func answer(w http.ResponseWriter, status int, what any) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(what) // to a buffer, or to a client that has gone
}

func sumText(b []byte) string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, durable.Sum(b)))
}
