// Package serve is ckpt as a service: its commands as an HTTP API, the states of jobs as a stream
// of events and as metrics, and a page that shows them. A store is its own database: the service
// keeps nothing that a store has, and jobs go on without it.
//
// Each request about a job or a prediction runs the command of that name in this process, and
// answers with the value that the command would print with --json. So an answer, its units, its
// errors and its hints are the command's, and a flag is described once.
package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/metrics"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/objectfs"
)

// A Tree is how this package reaches the commands of ckpt, which it is one of.
type Tree struct {
	New  func(*ui.Globals) *cobra.Command
	Call func(ctx context.Context, g *ui.Globals, args []string) error
}

type options struct {
	stores    []string
	listen    string
	readOnly  bool
	cert, key string
	tokens    string
	traces    string
	studies   string
}

// NewCommand returns the command.
func NewCommand(g *ui.Globals, tree Tree) *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Show jobs on a page, and answer requests over HTTP",
		Long: `Serve the jobs of one or several stores: a page that shows them live and answers what
checkpoints would cost, an HTTP API with the results that other commands print with --json
(/api/openapi.json describes it), and metrics for Prometheus (/metrics).

The service listens on this machine only, and prints a link that lets one browser in; when
the link is used, it prints another one. --tokens names a file with a line for each program
that may ask: read or change, and a token of at least 20 characters. On other addresses
--listen needs --tokens, --tls-cert and --tls-key. With --read-only no request changes a
job.

The service ends with ^C or SIGTERM. Jobs that it has launched go on: ckpt status shows
them, and a later service shows them again. docs/SERVICE.md explains all of it.`,
		Example: `  ckpt serve
  ckpt serve --store /scratch/a --store /scratch/b --read-only
  ckpt serve --listen 10.77.0.1:7070 --tls-cert cert.pem --tls-key key.pem --tokens tokens`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.stores) == 0 {
				dir, err := objectfs.Dir(ui.DefaultStore())
				if err != nil {
					return ui.BadUsage(fmt.Sprintf("$CKPT_STORE: %v", err), "name a store with --store")
				}
				o.stores = []string{dir}
			}
			return run(cmd.Context(), g, tree, &o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.stores, "store", nil, "directory of a checkpoint store, may be given several times (default: $CKPT_STORE)")
	f.StringVar(&o.listen, "listen", "127.0.0.1:7070", "HOST:PORT to listen on, with port 0 for any free one; or unix:PATH, a socket whose users see what they can read. A socket that a service manager passes comes before it")
	f.BoolVar(&o.readOnly, "read-only", false, "refuse requests that change jobs")
	f.StringVar(&o.cert, "tls-cert", "", "certificate in PEM, with the names of this service")
	f.StringVar(&o.key, "tls-key", "", "private key of the certificate, in PEM")
	f.StringVar(&o.traces, "traces", "", "directory whose traces of I/O the service shows, with the directories below it")
	f.StringVar(&o.studies, "studies", "", "directory whose studies (ckpt study) the service shows, with the directories below it")
	f.StringVar(&o.tokens, "tokens", "", "file of tokens for programs: lines of read or change, and a token")
	return cmd
}

// A server answers the requests of one service.
type server struct {
	ctx  context.Context // ends with the service
	g    *ui.Globals
	tree Tree
	// commands has the command of each operation, to look flags up.
	commands map[string]*cobra.Command
	stores   []storeRef
	guard    *guard
	tasks    tasks
	watch    *watcher
	meter    *meter
	places   chan struct{} // for answers that compute
	traces   folder
	studies  folder
	grids    grids
	schema   []byte // the OpenAPI document
}

// newServer makes a server for stores.
func newServer(ctx context.Context, g *ui.Globals, tree Tree, dirs []string) (*server, error) {
	s := &server{ctx: ctx, g: g, tree: tree, commands: map[string]*cobra.Command{}, places: make(chan struct{}, runtime.GOMAXPROCS(0))}
	for _, dir := range dirs {
		one := ui.Globals{Store: dir}
		if err := one.CheckStore(); err != nil {
			return nil, err
		}
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		for _, other := range s.stores {
			if other.Dir == path {
				return nil, ui.BadUsage(fmt.Sprintf("--store %s is given twice", dir), "leave one out")
			}
		}
		s.stores = append(s.stores, storeRef{s.nameFor(path), path})
	}
	s.watch = newWatcher(s.stores)
	s.meter = newMeter(s)
	s.tasks.changed = func(t Task) { s.watch.tell(Change{Task: &t}) }
	s.guard = &guard{most: changing, now: time.Now, sessions: map[digest]time.Time{}, buckets: map[string]*bucket{}, link: func(string) {}}
	var err error
	s.schema, err = s.document()
	return s, err
}

// nameFor is a name of a store in paths, with a number if another store has it.
func (s *server) nameFor(dir string) string {
	name := metrics.StoreName(dir)
	for n, plain := 2, name; ; n++ {
		taken := false
		for _, st := range s.stores {
			taken = taken || st.Name == name
		}
		if !taken {
			return name
		}
		name = fmt.Sprintf("%s-%d", plain, n)
	}
}

// all returns the handler of all requests, behind the guard.
func (s *server) all() http.Handler {
	mux := http.NewServeMux()
	for i := range operations {
		o := &operations[i]
		mux.HandleFunc(o.method+" "+o.path, needs(o.right, s.handler(o)))
	}
	for _, own := range s.own() {
		mux.HandleFunc(own.method+" "+own.path, needs(own.right, own.exact))
	}
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		var others []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete} {
			if _, pattern := mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "/api/" {
				others = append(others, method)
			}
		}
		if list := strings.Join(others, ", "); list != "" {
			w.Header().Set("Allow", list)
			fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("there is no %.10s %.200s", r.Method, r.URL.Path), "use "+list)
			return
		}
		fail(w, http.StatusNotFound, fmt.Sprintf("there is no %.10s %.200s", r.Method, r.URL.Path), "/api/openapi.json has all requests")
	})
	mux.HandleFunc("/", needs(reading, page))
	return s.guard.wrap(mux)
}

// run serves until the context or a signal ends it.
func run(ctx context.Context, g *ui.Globals, tree Tree, o *options) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	s, err := newServer(ctx, g, tree, o.stores)
	if err != nil {
		return err
	}
	if s.traces, err = openFolder(o.traces, "traces", "trace"); err != nil {
		return err
	}
	if s.studies, err = openFolder(o.studies, "studies", "study"); err != nil {
		return err
	}
	l, url, err := s.open(o)
	if err != nil {
		return err
	}
	s.guard.link = func(key string) {
		_ = g.Printf("open %s/enter?key=%s\n", url, key) // the service outlives a closed terminal
	}
	if l.Addr().Network() == "unix" {
		s.guard.link = func(string) {} // no browser gets there
		_ = g.Printf("listening on %s\n", l.Addr())
	}
	signal.Ignore(syscall.SIGPIPE)
	return s.serve(ctx, l, managerOf(os.Getenv, os.Getpid()))
}

// open opens the listener that a manager passes, or that --listen says, and the address of the
// page.
func (s *server) open(o *options) (net.Listener, string, error) {
	l, err := passed(os.Getenv, os.Getpid())
	if err != nil {
		return nil, "", err
	}
	address, said, path, isUnix := o.listen, "--listen "+o.listen, "", false
	if l != nil {
		address = l.Addr().String()
		said = "the passed socket " + address
		isUnix = l.Addr().Network() == "unix"
	} else {
		path, isUnix = strings.CutPrefix(o.listen, "unix:")
	}
	host, _, err := net.SplitHostPort(address)
	if isUnix {
		host, err = "localhost", nil
	}
	if err != nil {
		return nil, "", ui.BadUsage(fmt.Sprintf("--listen %s: want HOST:PORT or unix:PATH", o.listen), "like --listen 127.0.0.1:7070")
	}
	certificate, err := s.secure(o, said, host)
	if err != nil {
		return nil, "", err
	}
	switch {
	case l != nil:
	case isUnix:
		l, err = listenUnix(path)
	default:
		if l, err = net.Listen("tcp", o.listen); errors.Is(err, syscall.EADDRINUSE) {
			err = ui.WithHint(err, "choose another port with --listen, or 127.0.0.1:0 for a free one")
		} else if err != nil {
			err = ui.BadUsage(said+": "+err.Error(), "name an address of this host, and a port up to 65535 that you may use")
		}
	}
	if err != nil {
		return nil, "", err
	}
	s.guard.cookie = "ckpt-" + portOf(l.Addr())
	if certificate == nil {
		return l, "http://" + l.Addr().String(), nil
	}
	url := "https://" + net.JoinHostPort(nameOf(s.guard.leaf, host), portOf(l.Addr()))
	return tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}), url, nil
}

// secure reads what the guard needs, and refuses an address that others reach without it.
func (s *server) secure(o *options, said, host string) (*tls.Certificate, error) {
	if o.readOnly {
		s.guard.most = reading
	}
	if (o.cert == "") != (o.key == "") {
		return nil, ui.BadUsage("--tls-cert and --tls-key belong together", "give both, or leave both out")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && (o.cert == "" || o.tokens == "") {
		return nil, ui.BadUsage(said+": other machines reach this address", "add --tls-cert, --tls-key and --tokens; or listen on 127.0.0.1, and reach it through ssh -L")
	}
	var err error
	if o.tokens != "" {
		if s.guard.tokens, err = readTokens(o.tokens); err != nil {
			return nil, err
		}
	}
	if o.cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, ui.WithHint(ui.AsUsage(err), makesPair)
	}
	s.guard.secure = true
	s.guard.leaf, err = x509.ParseCertificate(pair.Certificate[0])
	if err == nil && len(s.guard.leaf.DNSNames)+len(s.guard.leaf.IPAddresses) == 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--tls-cert %s: the certificate has no subjectAltName, and browsers look for names only there", o.cert), makesPair)
	}
	return &pair, err
}

const makesPair = "openssl req -x509 -newkey ed25519 -nodes -keyout key.pem -out cert.pem -subj /CN=HOST -addext subjectAltName=DNS:HOST makes a pair"

// nameOf is a name of the certificate that a browser can use: the host of --listen, a name of this
// machine, or the first one.
func nameOf(leaf *x509.Certificate, host string) string {
	machine, _ := os.Hostname()
	short, _, _ := strings.Cut(machine, ".")
	names := append([]string{host, machine}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	for _, name := range names {
		name = strings.Replace(name, "*", short, 1)
		if leaf.VerifyHostname(name) == nil {
			return name
		}
	}
	return host
}

func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// graceful is how long requests may take when the service ends.
const graceful = 5 * time.Second

// serve answers the requests of a listener until ctx ends. Then tasks of this process are
// cancelled and awaited; processes of jobs go on.
func (s *server) serve(ctx context.Context, l net.Listener, m manager) error {
	h := &http.Server{Handler: s.all(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: longestAnswer, WriteTimeout: 2 * longestAnswer, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10, ConnContext: withPeer}
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(l) }()
	go s.watch.run(ctx)
	s.guard.newLink()
	m.tell("READY=1")
	go s.guardedBy(ctx, m)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	m.tell("STOPPING=1")
	end, cancel := context.WithTimeout(context.Background(), graceful)
	defer cancel()
	err := h.Shutdown(end)
	s.tasks.work.Wait()
	if errors.Is(err, context.DeadlineExceeded) {
		return h.Close()
	}
	return err
}

// session answers with what a page needs to know of the service, and of its sender.
func (s *server) session(w http.ResponseWriter, r *http.Request) {
	has, _ := r.Context().Value(rightKey{}).(right)
	host, _ := os.Hostname()
	respond(w, http.StatusOK, session{has.String(), host, ui.ThisBuild().Version})
}

type session struct {
	Right   string `json:"right"`
	Host    string `json:"host"`
	Version string `json:"version"`
}
