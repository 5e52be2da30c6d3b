package codec

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"ckpt/zones"
)

const page = zones.PageSize

// heat returns n bytes of float64: a square plate with twenty warm spots after
// thirty explicit steps of the heat equation.
func heat(n int) []byte {
	side := int(math.Sqrt(float64(n / 8)))
	side += 2
	u, v := make([]float64, side*side), make([]float64, side*side)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		cx, cy := rnd.Float64()*float64(side), rnd.Float64()*float64(side)
		width, warm := 5+rnd.Float64()*float64(side)/8, rnd.Float64()*100
		for i := range side {
			for j := range side {
				dx, dy := float64(i)-cx, float64(j)-cy
				u[i*side+j] += warm * math.Exp(-(dx*dx+dy*dy)/(2*width*width))
			}
		}
	}
	copy(v, u)
	for range 30 {
		for i := 1; i < side-1; i++ {
			for k := i*side + 1; k < (i+1)*side-1; k++ {
				v[k] = u[k] + 0.2*(u[k-1]+u[k+1]+u[k-side]+u[k+side]-4*u[k])
			}
		}
		u, v = v, u
	}
	b := make([]byte, n)
	for i := range n / 8 {
		binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(u[i]))
	}
	return b
}

// noise returns n random bytes.
func noise(n int, seed uint64) []byte {
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], rnd.Uint64())
	}
	return b
}

// normals returns n bytes of normally distributed float64, in which no string
// repeats but exponents cluster.
func normals(n int) []byte {
	rnd := rand.New(rand.NewPCG(5, 0))
	b := make([]byte, n)
	for i := range n / 8 {
		binary.LittleEndian.PutUint64(b[8*i:], math.Float64bits(rnd.NormFloat64()))
	}
	return b
}

// indices returns n bytes of ascending int32, like the rows of a sparse matrix.
func indices(n int) []byte {
	rnd := rand.New(rand.NewPCG(3, 0))
	b := make([]byte, n)
	for i := range n / 4 {
		binary.LittleEndian.PutUint32(b[4*i:], uint32(3*i+rnd.IntN(50)))
	}
	return b
}

// text returns n bytes of words.
func text(n int) []byte {
	words := []string{"rank ", "of ", "the ", "checkpoint ", "is ", "written ", "restart ", "storage ", "and ", "node\n"}
	rnd := rand.New(rand.NewPCG(4, 0))
	var b []byte
	for len(b) < n {
		b = append(b, words[rnd.IntN(len(words))]...)
	}
	return b[:n]
}

// keep copies an encoded extent out of its encoder.
func keep(x Encoded) Encoded {
	x.Data = slices.Clone(x.Data)
	return x
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// tb is what testing.TB and rapid.T have in common that is used here.
type tb interface {
	Helper()
	Fatal(...any)
}

// mustDecode decodes x into n bytes.
func mustDecode(t tb, d *Decoder, x Encoded, n int) []byte {
	t.Helper()
	dst := noise(n, 99) // so that nothing is right by chance
	if err := d.Decode(dst, x.Data, x.ID, x.Filter); err != nil {
		t.Fatal(err)
	}
	return dst
}
