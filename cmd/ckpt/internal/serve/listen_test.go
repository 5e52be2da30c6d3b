package serve

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
)

// pairOf makes a certificate with names, and its key, and returns their files.
func pairOf(t *testing.T, names ...string) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	c, err := x509.CreateCertificate(rand.Reader, of, of, public, private)
	k, kerr := x509.MarshalPKCS8PrivateKey(private)
	dir := t.TempDir()
	for _, err := range []error{err, kerr, os.WriteFile(dir+"/cert", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c}), 0o600),
		os.WriteFile(dir+"/key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: k}), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir + "/cert", dir + "/key"
}

// TestOpen: a link that is printed works, and what no link could lead to is refused with a remedy.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		listen string
		names  []string // of a certificate
		says   string
	}{
		{"127.0.0.1:99999", nil, "--listen 127.0.0.1:99999: "},
		{"127.0.0.1:http-of-nobody", nil, "http-of-nobody"},
		{"unix:", nil, "want the path of a socket"},
		{"127.0.0.1:0", []string{}, "no subjectAltName"},
	} {
		s, _ := newTest(t)
		o := &options{listen: test.listen}
		if test.names != nil {
			o.cert, o.key = pairOf(t, test.names...)
		}
		if _, _, err := s.open(o); ui.ExitCode(err) != ui.ExitUsage || ui.HintOf(err) == "" || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s %v: %v", test.listen, test.names, err)
		}
	}
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	short, _, _ := strings.Cut(machine, ".")
	for name, want := range map[string]string{"*.ckpt.example": short + ".ckpt.example", "jobs.ckpt.example": "jobs.ckpt.example", "localhost": "localhost"} {
		s, _ := newTest(t)
		o := &options{listen: "localhost:0"}
		o.cert, o.key = pairOf(t, name)
		l, url, err := s.open(o)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		if !strings.HasPrefix(url, "https://"+want+":") || !s.guard.hostFits(strings.TrimPrefix(url, "https://")) {
			t.Errorf("a certificate of %s: %s", name, url)
		}
	}
	s, _ := newTest(t)
	if _, err := s.secure(&options{listen: "127.0.0.1:7070"}, "the passed socket 0.0.0.0:7430", "0.0.0.0"); err == nil || !strings.HasPrefix(err.Error(), "the passed socket 0.0.0.0:7430: ") {
		t.Errorf("a passed socket on all addresses: %v", err)
	}
}

// TestOtherMethods: a path without the method says which ones it has.
func TestOtherMethods(t *testing.T) {
	t.Parallel()
	_, h := newTest(t)
	for _, test := range []struct {
		method, path, allow string
		status              int
	}{
		{"PUT", "/api/stores", "GET, HEAD", 405},
		{"DELETE", "/api/stores/golden/jobs", "GET, HEAD, POST", 405},
		{"POST", "/api/stores/golden/jobs/job", "GET, HEAD, DELETE", 405},
		{"HEAD", "/api/simulate", "POST", 405},
		{"POST", "/api/nothing", "", 404},
	} {
		if w := ask(h, changeToken, test.method, test.path, ""); w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, allow %q", test.method, test.path, w.Code, w.Header().Get("Allow"))
		}
	}
}

// TestDamagedJobInList: the list of jobs has those that are not damaged, and a warning.
func TestDamagedJobInList(t *testing.T) {
	t.Parallel()
	s, h := newTest(t)
	jobs := jobsOf(s.stores[0].Dir)
	if err := errors.Join(os.CopyFS(jobs+"/bad", os.DirFS(jobs+"/job")), os.WriteFile(jobs+"/bad/job", []byte("junk"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w := ask(h, readToken, "GET", "/api/stores/golden/jobs", "")
	if warning := w.Header().Get("Ckpt-Warning"); w.Code != 200 || !strings.Contains(warning, "bad/job is damaged") || !strings.Contains(w.Body.String(), `"job":"job"`) {
		t.Errorf("%d %q %s", w.Code, warning, w.Body)
	}
	if w := ask(h, readToken, "GET", "/api/stores/golden/jobs/bad", ""); w.Code != 409 {
		t.Errorf("the damaged job: %d %s", w.Code, w.Body)
	}
}
