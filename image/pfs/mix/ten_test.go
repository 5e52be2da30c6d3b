package mix

const (
	kib = 1 << 10
	mib = 1 << 20
)

// ten returns the ten applications of Lebre's mix (thesis, tables 4.2 and 7.2). The
// sequential ones begin 15 s after the others. Those of 4 KiB have operations of
// 32 KiB: their client asks for whole requests of the protocol, each of which serves
// eight reads (Lebre 2006, section 7.3).
func ten() []App {
	const late = 15
	return []App{
		{Name: "1 read 2 GB by 32", Processes: 32, Bytes: 2048 * mib, Grain: 128 * kib},
		{Name: "2 write 2 GB by 32", Write: true, Processes: 32, Bytes: 2048 * mib, Grain: 128 * kib},
		{Name: "3 read 256 MB by 16", Processes: 16, Bytes: 256 * mib, Grain: 8 * kib},
		{Name: "4 write 128 MB by 8", Write: true, Processes: 8, Bytes: 128 * mib, Grain: 64 * kib},
		{Name: "5 read 32 MB", Processes: 1, Bytes: 32 * mib, Grain: 32 * kib, Start: late},
		{Name: "6 write 32 MB", Write: true, Processes: 1, Bytes: 32 * mib, Grain: 32 * kib, Start: late},
		{Name: "7 read 4 MB", Processes: 1, Bytes: 4 * mib, Grain: 32 * kib, Start: late},
		{Name: "8 write 4 MB", Write: true, Processes: 1, Bytes: 4 * mib, Grain: 32 * kib, Start: late},
		{Name: "9 read 1 GB", Processes: 1, Bytes: 1024 * mib, Grain: 2 * mib, Start: late},
		{Name: "10 write 512 MB", Write: true, Processes: 1, Bytes: 512 * mib, Grain: 2 * mib, Start: late},
	}
}
