package serve

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
)

// right is what the holder of a token may do. The right to change includes the right to read.
type right int

const (
	reading right = 1 + iota
	changing
)

func (r right) String() string {
	if r == changing {
		return "change"
	}
	return "read"
}

// digest keeps a secret out of memory dumps and comparisons that take longer for a better guess.
type digest = [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }

func newSecret() string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// shortestToken is how many characters a token has at least.
const shortestToken = 20

// readTokens reads a file of lines RIGHT TOKEN, with RIGHT read or change.
func readTokens(name string) (map[digest]right, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, ui.SourceError(err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil {
		return nil, err
	} else if fi.Mode().Perm()&0o077 != 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--tokens %s: other users can read it", name), "chmod 600 "+name)
	}
	tokens := map[digest]right{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		r := map[string]right{"read": reading, "change": changing}[words[0]]
		if len(words) != 2 || r == 0 || len(words[1]) < shortestToken {
			return nil, ui.BadUsage(fmt.Sprintf("--tokens %s, line %d: want read or change, and a token of at least %d characters", name, n, shortestToken),
				"openssl rand -hex 24 makes a token")
		}
		tokens[digestOf(words[1])] = r
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, ui.BadUsage(fmt.Sprintf("--tokens %s: the file has no token", name), "write a line like: read $(openssl rand -hex 24)")
	}
	return tokens, nil
}

// sessionLife is how long a browser stays known without a request.
const sessionLife = 12 * time.Hour

// A guard says who asks, and what that one may do.
type guard struct {
	cookie string // the name of the cookie: services on several ports share the cookies of a host
	secure bool   // over TLS
	most   right
	leaf   *x509.Certificate // whose names are those of this service; nil on loopback
	tokens map[digest]right
	link   func(key string) // tells the user the next one-time link
	now    func() time.Time

	mu       sync.Mutex
	key      digest // of the one-time link
	sessions map[digest]time.Time
	buckets  map[string]*bucket
}

// newLink makes a one-time link, and tells the user.
func (g *guard) newLink() {
	key := newSecret()
	g.mu.Lock()
	g.key = digestOf(key)
	g.mu.Unlock()
	g.link(key)
}

// enter takes the key of a one-time link for a session. The next link is another one.
func (g *guard) enter(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	fits := digestOf(r.URL.Query().Get("key")) == g.key
	secret := newSecret()
	if fits {
		g.sessions[digestOf(secret)] = g.now().Add(sessionLife)
		g.key = digest{}
	}
	g.mu.Unlock()
	if !fits {
		g.refuseStranger(w, r)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: secret, Path: "/", HttpOnly: true, Secure: g.secure, SameSite: http.SameSiteStrictMode})
	http.Redirect(w, r, "/", http.StatusSeeOther)
	g.newLink()
}

// rightOf says what the sender of a request may do, 0 for nothing.
func (g *guard) rightOf(r *http.Request) right {
	if secret, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return min(g.tokens[digestOf(secret)], g.most)
	}
	if has := g.rightOfPeer(r); has > 0 {
		return has
	}
	c, err := r.Cookie(g.cookie)
	if err != nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	d := digestOf(c.Value)
	until, known := g.sessions[d]
	if !known || g.now().After(until) {
		delete(g.sessions, d)
		return 0
	}
	g.sessions[d] = g.now().Add(sessionLife)
	return g.most
}

// hostFits reports whether the host that a browser was told is this service: a page of another
// name may lead here by its own DNS (rebinding).
func (g *guard) hostFits(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if g.leaf != nil {
		return g.leaf.VerifyHostname(host) == nil
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// A bucket bounds the requests of one sender.
type bucket struct {
	tokens float64
	at     time.Time
}

// Requests of a sender in a row and per second; a stranger has fewer.
const (
	burst, rate                 = 400, 200
	strangerBurst, strangerRate = 20, 2
	mostBuckets                 = 4096
)

// allow takes a token out of a sender's bucket.
func (g *guard) allow(sender string, burst, rate float64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if len(g.buckets) >= mostBuckets {
		clear(g.buckets)
	}
	b := g.buckets[sender]
	if b == nil {
		b = &bucket{burst, now}
		g.buckets[sender] = b
	}
	b.tokens = min(burst, b.tokens+rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// policy lets a page load what this service has, and no inline script.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// wrap puts the guard in front of a handler.
func (g *guard) wrap(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !g.hostFits(r.Host) {
			fail(w, http.StatusMisdirectedRequest, fmt.Sprintf("this service has no name %.80q", r.Host), "use the address that ckpt serve prints")
			return
		}
		if err := cross.Check(r); err != nil {
			fail(w, http.StatusForbidden, "the request comes from a page of another origin", "open the page of this service")
			return
		}
		sender, _, _ := net.SplitHostPort(r.RemoteAddr)
		if p, ok := r.Context().Value(peerKey{}).(*peer); ok {
			sender = fmt.Sprintf("uid %d", p.uid)
		}
		if r.URL.Path == "/enter" {
			g.limited(w, r, "stranger "+sender, http.HandlerFunc(g.enter), strangerBurst, strangerRate)
			return
		}
		has := g.rightOf(r)
		if has == 0 {
			g.limited(w, r, "stranger "+sender, http.HandlerFunc(g.refuseStranger), strangerBurst, strangerRate)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), rightKey{}, has))
		r.Body = http.MaxBytesReader(w, r.Body, mostBody)
		g.limited(w, r, "known "+sender, next, burst, rate)
	})
}

// rightKey is where the context of a request has the right of its sender.
type rightKey struct{}

// needs puts a right in front of a handler.
func needs(needed right, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if has, _ := r.Context().Value(rightKey{}).(right); has < needed {
			fail(w, http.StatusForbidden, fmt.Sprintf("this needs the right %v, and the sender has the right %v", needed, has), "use a token with the right change; a service with --read-only gives it to no sender")
			return
		}
		next(w, r)
	}
}

// mostBody is how large the body of a request may be.
const mostBody = 64 << 10

func (g *guard) limited(w http.ResponseWriter, r *http.Request, sender string, next http.Handler, burst, rate float64) {
	if !g.allow(sender, burst, rate) {
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, "too many requests", "wait a second")
		return
	}
	next.ServeHTTP(w, r)
}

// refuseStranger answers a sender that is not known: a page for a browser, else JSON.
func (g *guard) refuseStranger(w http.ResponseWriter, r *http.Request) {
	const text, hint = "the sender is not known", "open the link that ckpt serve prints, or send a token of --tokens"
	w.Header().Set("WWW-Authenticate", "Bearer")
	if strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics" {
		fail(w, http.StatusUnauthorized, text, hint)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusUnauthorized)
	fmt.Fprintf(w, "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\"><title>ckpt</title><h1>ckpt</h1><p>This browser is not known here. Each link of <code>ckpt serve</code> lets one browser in: %s.</p>", hint)
}
