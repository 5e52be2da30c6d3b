package testkit

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A Proxy stands between clients and an object storage, and has things happen to requests.
type Proxy struct {
	Endpoint string
	server   *httptest.Server
	target   string // host and port of the storage
	pass     http.RoundTripper
	late     sync.WaitGroup

	mu    sync.Mutex
	turn  *sync.Cond // n has grown
	n     int
	fault func(n int, r *http.Request) Fault
}

// A Fault is what happens to a request. The zero one: nothing.
type Fault struct {
	Drop   bool // the connection ends in place of an answer
	Status int  // of the answer in place of its own; 0: its own
	Done   bool // with Drop or Status: the request is carried out all the same
	Cut    bool // the answer ends in its middle
	// Late has the request carried out after so many others have come. With Drop its sender hears
	// nothing, and has gone on.
	Late int
	Deaf bool // its conditions are taken away
}

// Faults are what may happen to a request without a lie of the storage: they cost nothing in the end.
var Faults = []Fault{
	{Drop: true}, {Drop: true, Done: true}, {Drop: true, Late: 4}, {Late: 1}, {Cut: true},
	{Status: http.StatusInternalServerError}, {Status: http.StatusInternalServerError, Done: true},
	{Status: http.StatusServiceUnavailable}, {Status: http.StatusConflict},
}

// lateFor bounds how long a request waits for others that may never come.
const lateFor = 100 * time.Millisecond

// StartProxy starts one before a storage. Fault hears of each request, counted from 1, before it
// is passed on; End ends it.
func StartProxy(g *Gateway, fault func(n int, r *http.Request) Fault) *Proxy {
	return startProxy(&Proxy{target: g.Endpoint[len("http://"):], fault: fault, pass: &http.Transport{}})
}

// StartProxyOf starts one before a storage in this process, which saves a connection.
func StartProxyOf(storage http.Handler) *Proxy {
	return startProxy(&Proxy{pass: inside{storage}})
}

// inside carries requests out without a connection.
type inside struct{ http.Handler }

func (i inside) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	i.ServeHTTP(w, r)
	return w.Result(), nil
}

func startProxy(p *Proxy) *Proxy {
	p.turn = sync.NewCond(&p.mu)
	p.server = httptest.NewServer(p)
	p.Endpoint = p.server.URL
	return p
}

// End ends it, once what is late has arrived.
func (p *Proxy) End() {
	p.server.CloseClientConnections()
	p.server.Close()
	p.late.Wait()
	if t, ok := p.pass.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// Again counts requests anew, with other faults, once what is late has arrived.
func (p *Proxy) Again(fault func(n int, r *http.Request) Fault) {
	p.late.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n, p.fault = 0, fault
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.n++
	n, f := p.n, Fault{}
	if p.fault != nil {
		f = p.fault(n, r)
	}
	p.turn.Broadcast()
	p.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	late := func() (int, http.Header, []byte) {
		p.wait(n + f.Late)
		return p.carryOut(r, body, f)
	}
	if f.Late > 0 && f.Drop {
		p.late.Go(func() { late() })
		panic(http.ErrAbortHandler)
	}
	status, header, answer := http.StatusBadGateway, http.Header{}, []byte(nil)
	if !f.Drop && f.Status == 0 || f.Done {
		status, header, answer = late()
	}
	switch {
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		w.WriteHeader(f.Status)
		return
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(status)
	if f.Cut {
		_, _ = w.Write(answer[:len(answer)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(answer)
}

// wait waits until a request has come, or none does.
func (p *Proxy) wait(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	over := false
	defer time.AfterFunc(lateFor, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		over = true
		p.turn.Broadcast()
	}).Stop()
	for p.n < n && !over {
		p.turn.Wait()
	}
}

// carryOut passes a request on, whatever becomes of its sender.
func (p *Proxy) carryOut(r *http.Request, body []byte, f Fault) (int, http.Header, []byte) {
	out := r.Clone(context.WithoutCancel(r.Context()))
	out.URL.Scheme, out.URL.Host, out.RequestURI = "http", p.target, ""
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	if len(body) == 0 {
		out.Body = http.NoBody
	}
	out.Header.Del("Expect")
	if f.Deaf && out.Method != http.MethodGet {
		out.Header.Del("If-None-Match")
		out.Header.Del("If-Match")
		if sign(out) != nil {
			return http.StatusBadGateway, nil, nil
		}
	}
	answer, err := p.pass.RoundTrip(out)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return http.StatusBadGateway, nil, nil
	}
	return answer.StatusCode, answer.Header, b
}

// sign signs a request that was changed, as its sender.
func sign(r *http.Request) error {
	r.Header.Del("Authorization")
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).SignHTTP(r.Context(),
		aws.Credentials{AccessKeyID: Key, SecretAccessKey: Secret}, r, r.Header.Get("X-Amz-Content-Sha256"), "s3", "us-east-1", time.Now())
}
