package finding

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"reflect"
	"strings"

	"ckpt/internal/wording"
)

// Hints for programs that are not ours, each with the page that documents it.
var (
	cbWrite = Hint{"Collective buffering: MPI_File_write_all, with the ROMIO hint romio_cb_write=enable.",
		"ROMIO User's Guide, section Hints; Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	cbRead = Hint{"Collective buffering: MPI_File_read_all, with the ROMIO hint romio_cb_read=enable.",
		"ROMIO User's Guide, section Hints; Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	cbNodes = Hint{"ROMIO hints: cb_nodes, the number of aggregators, one per node to begin with; cb_buffer_size, 16 MiB or more.",
		"MPI standard 4.0, section 14.2.8 (reserved file hints); ROMIO User's Guide"}
	ompio = Hint{"OMPIO: --mca io_ompio_num_aggregators N, --mca io_ompio_bytes_per_agg BYTES, and another component: --mca fcoll two_phase, dynamic_gen2 or vulcan.",
		"Open MPI documentation, page OMPIO; ompi_info --param io ompio"}
	sieveWrite = Hint{"ROMIO hint romio_ds_write=disable, if single writes read a block first to change a part of it (data sieving).",
		"ROMIO User's Guide, section Hints"}
	mpiio = Hint{"Write and read shared files through MPI-IO, with a file view for each rank and collective calls.",
		"MPI standard 4.0, sections 14.3 (file views) and 14.4 (collective data access)"}
	mpiStripes = Hint{"MPI-IO: the hints striping_factor and striping_unit, when the file is made.",
		"MPI standard 4.0, section 14.2.8 (reserved file hints)"}
	nonblocking = Hint{"MPI-IO: nonblocking calls, MPI_File_iwrite_at_all and MPI_File_iread_at_all, with computation before MPI_Wait.",
		"MPI standard 4.0, section 14.4"}
	broadcast = Hint{"Let one rank read what all need, and send it to the others with MPI_Bcast.",
		"MPI standard 4.0, section 6.4 (broadcast)"}
	stripeMore = Hint{"lfs setstripe -c COUNT on the directory, before the file is made: 4 stripes, or -c -1 for all OSTs.",
		"lfs-setstripe(1); Lustre Operations Manual, chapter Managing File Layout (Striping) and Free Space"}
	stripeSize = Hint{"lfs setstripe -S SIZE on the directory: a stripe size that divides the distance between the parts of the ranks.",
		"lfs-setstripe(1); Lustre Operations Manual, chapter Managing File Layout (Striping) and Free Space"}
	otherTarget = Hint{"lfs getstripe FILE names the OSTs of a file, and lfs df tells whether one is full. lfs setstripe -o LIST, or -p POOL, on the directory, before the files are made, leaves out a slow one.",
		"lfs-setstripe(1), options -o and -p; lfs-getstripe(1); lfs-df(1)"}
	otherNode = Hint{"Run without the node, with the option exclude of sbatch and srun, and tell the administrators.",
		"sbatch(1), option exclude"}
	compareRuns = Hint{"Record a second run: a slow rank on the same node again is a slow node; else the storage, or other jobs on it, was slow.",
		"Lockwood, Snyder, Wang, Byna, Carns, Wright, A Year in the Life of a Parallel File System, SC 2018"}
	hdf5Collective = Hint{"HDF5: open with H5Pset_fapl_mpio, transfer with H5Pset_dxpl_mpio(…, H5FD_MPIO_COLLECTIVE).",
		"HDF5 Reference Manual, H5Pset_fapl_mpio and H5Pset_dxpl_mpio"}
	hdf5Metadata = Hint{"HDF5: H5Pset_coll_metadata_write and H5Pset_all_coll_metadata_ops, so that ranks do metadata together.",
		"HDF5 Reference Manual, H5Pset_coll_metadata_write and H5Pset_all_coll_metadata_ops"}
	hdf5Align = Hint{"HDF5: H5Pset_alignment with the stripe size of the file system.",
		"HDF5 Reference Manual, H5Pset_alignment"}
	hdf5Chunks = Hint{"HDF5: a chunk cache that holds all chunks in use (H5Pset_chunk_cache), and chunks shaped like what is read.",
		"HDF5 Reference Manual, H5Pset_chunk_cache and H5Pset_chunk"}
	hdf5Blocks = Hint{"HDF5: larger hyperslabs per H5Dwrite and H5Dread; for contiguous datasets a larger sieve buffer than 64 KiB (H5Pset_sieve_buf_size), and metadata together in larger blocks than 2 KiB (H5Pset_meta_block_size).",
		"HDF5 Reference Manual, H5Sselect_hyperslab, H5Pset_sieve_buf_size and H5Pset_meta_block_size"}
	hdf5Fill = Hint{"HDF5: H5Pset_fill_time(…, H5D_FILL_TIME_NEVER), if the program writes all of a dataset: parallel HDF5 fills new datasets first.",
		"HDF5 Reference Manual, H5Pset_fill_time and H5Pset_alloc_time"}
	hdf5Async = Hint{"HDF5: the asynchronous I/O VOL connector.", "HDF5 documentation of the Async VOL connector (vol-async)"}
	netcdf    = Hint{"NetCDF: nc_var_par_access(…, NC_COLLECTIVE). PnetCDF: the calls that end in _all, and the hint nc_header_align_size.",
		"NetCDF-C documentation, Parallel I/O with NetCDF-4; PnetCDF documentation, I/O hints"}
	buffer = Hint{"Write and read through a buffer of 1 MiB or more: setvbuf for streams of the C library, a larger block in the options of a tool (dd bs=, tar -b, cp reads large blocks itself).",
		"setvbuf(3); dd(1); tar(1)"}
	ahead = Hint{"Read ahead: posix_fadvise(POSIX_FADV_SEQUENTIAL) or readahead, and larger reads.",
		"posix_fadvise(2); readahead(2)"}
	fadvise = Hint{"Sort requests by offset, or announce them: posix_fadvise(POSIX_FADV_WILLNEED) for what comes next, POSIX_FADV_RANDOM if nothing can be foretold.",
		"posix_fadvise(2)"}
	overHoles = Hint{"Data sieving: read 1 MiB or more with one call, over the holes, and copy the parts out of it. MPI-IO with a file view does so with the ROMIO hint romio_ds_read=enable.",
		"Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999; ROMIO User's Guide, section Hints"}
	queue = Hint{"Keep several requests under way: io_uring, libaio, or threads.", "io_uring(7); io_submit(2)"}
	align = Hint{"Begin at multiples of the page size, or of the stripe size of the file system; pad records and headers to it.",
		"open(2), section NOTES on O_DIRECT; Lustre Operations Manual, chapter on striping"}
	cache     = Hint{"Keep what is read again in memory, or map the file.", "mmap(2)"}
	wholeBlks = Hint{"Gather changes in memory and write whole blocks, so that nothing must be read first.", "Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	writeOnce = Hint{"Write each byte once: gather changes in memory, or append them and write the whole seldom.", "Rosenblum, Ousterhout, The Design and Implementation of a Log-Structured File System, 1992"}
	fdatasync = Hint{"Sync once after a batch of writes, and with fdatasync; a database commits many changes in one transaction.",
		"fsync(2); fdatasync(2)"}
	keepOpen = Hint{"Open a file once and keep its descriptor; pread and pwrite need no seek.", "open(2); pread(2)"}
	statOnce = Hint{"Ask once: keep the result, use fstat on the open file, or inotify to learn of changes.", "stat(2); inotify(7)"}
	pack     = Hint{"Keep many small files in one: an archive that is read in order, a database, or HDF5.", "tar(1); SQLite documentation, 35% Faster Than The Filesystem"}
	ownParts = Hint{"Locks of whole blocks: give each process blocks of the file that no other writes, or a file of its own.", "fcntl(2), section Advisory record locking; flock(2)"}
	ownCalls = Hint{"Ranks that move large contiguous parts of a file need no exchange: MPI_File_write_at and read_at, each rank its own stripes.",
		"MPI standard 4.0, section 14.4; Thakur, Gropp, Lusk, Data Sieving and Collective I/O in ROMIO, 1999"}
	stream = Hint{"Large data: write(2) and read(2) with large blocks, MPI-IO, or setvbuf with a larger buffer.", "setvbuf(3); MPI standard 4.0, chapter 14"}
)

// isHDF5 and isNetCDF go by the name of the file.
func isHDF5(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".h5", ".hdf5", ".hdf", ".he5", ".nc4":
		return true
	}
	return false
}

func (f *File) inHDF5() bool { return isHDF5(f.Name) }

func (f *File) onLustre() bool { return f.Storage == Lustre }

func isNetCDF(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".nc", ".nc4", ".cdf", ".netcdf":
		return true
	}
	return false
}

// collective returns the hints for requests that ranks of an MPI program should do
// together.
func (s *search) collective(name string, d int) []Hint {
	var h []Hint
	switch {
	case !s.MPI:
		return alone(name, buffer)
	case isHDF5(name):
		h = append(h, hdf5Collective, hdf5Metadata)
	case isNetCDF(name):
		h = append(h, netcdf)
	default:
		h = append(h, mpiio)
	}
	return append(h, s.aggregation(d)...)
}

// alone returns the hints for requests of single processes: the settings of the library of
// a file, or else others.
func alone(name string, others ...Hint) []Hint {
	if isHDF5(name) {
		return []Hint{hdf5Blocks, hdf5Chunks}
	}
	return others
}

// aggregation returns the settings of the MPI library.
func (s *search) aggregation(d int) []Hint {
	var h []Hint
	if s.Library != "OMPIO" {
		h = append(h, [2]Hint{cbWrite, cbRead}[d], cbNodes)
	}
	if s.Library != "ROMIO" {
		h = append(h, ompio)
	}
	return h
}

// Thresholds control which findings are reported. The built-in thresholds.yaml
// explains each.
type Thresholds struct {
	GainSeconds        float64 `yaml:"gain_s" json:"gain_s"`
	GainShare          float64 `yaml:"gain_share" json:"gain_share"`
	WarnSeconds        float64 `yaml:"warn_s" json:"warn_s"`
	WarnShare          float64 `yaml:"warn_share" json:"warn_share"`
	HighSeconds        float64 `yaml:"high_s" json:"high_s"`
	HighShare          float64 `yaml:"high_share" json:"high_share"`
	ReferenceRate      float64 `yaml:"reference_bytes_per_s" json:"reference_bytes_per_s"`
	ReferenceTotal     float64 `yaml:"reference_total_bytes_per_s" json:"reference_total_bytes_per_s"`
	ScaleRanks         int64   `yaml:"scale_ranks" json:"scale_ranks"`
	SmallBytes         int64   `yaml:"small_bytes" json:"small_bytes"`
	SmallShare         float64 `yaml:"small_share" json:"small_share"`
	SmallRequests      int64   `yaml:"small_requests" json:"small_requests"`
	LargeBytes         int64   `yaml:"large_bytes" json:"large_bytes"`
	MisalignedShare    float64 `yaml:"misaligned_share" json:"misaligned_share"`
	MisalignedRequests int64   `yaml:"misaligned_requests" json:"misaligned_requests"`
	SharedStripeShare  float64 `yaml:"shared_stripe_share" json:"shared_stripe_share"`
	MetadataTimeShare  float64 `yaml:"metadata_time_share" json:"metadata_time_share"`
	MetadataTimeOps    int64   `yaml:"metadata_time_ops" json:"metadata_time_ops"`
	MetadataPerRequest float64 `yaml:"metadata_per_request" json:"metadata_per_request"`
	MetadataOps        int64   `yaml:"metadata_ops" json:"metadata_ops"`
	StragglerFactor    float64 `yaml:"straggler_factor" json:"straggler_factor"`
	StragglerShare     float64 `yaml:"straggler_share" json:"straggler_share"`
	ImbalanceShare     float64 `yaml:"imbalance_share" json:"imbalance_share"`
	WritersShare       float64 `yaml:"writers_share" json:"writers_share"`
	Writers            int64   `yaml:"writers" json:"writers"`
	RandomShare        float64 `yaml:"random_share" json:"random_share"`
	RandomRequests     int64   `yaml:"random_requests" json:"random_requests"`
	ConcurrencyShare   float64 `yaml:"concurrency_share" json:"concurrency_share"`
	ConcurrencyRanks   int64   `yaml:"concurrency_ranks" json:"concurrency_ranks"`
	BusyShare          float64 `yaml:"busy_share" json:"busy_share"`
	OverlapShare       float64 `yaml:"overlap_share" json:"overlap_share"`
	EncodeFactor       float64 `yaml:"encode_factor" json:"encode_factor"`
	UnencodedSeconds   float64 `yaml:"unencoded_s" json:"unencoded_s"`
	CodecShare         float64 `yaml:"codec_share" json:"codec_share"`
	SyncBytes          int64   `yaml:"sync_bytes" json:"sync_bytes"`
	Syncs              int64   `yaml:"syncs" json:"syncs"`
	LockWaits          int64   `yaml:"lock_waits" json:"lock_waits"`
	TrafficShare       float64 `yaml:"traffic_share" json:"traffic_share"`
	CollectiveRequests int64   `yaml:"collective_requests" json:"collective_requests"`
	ExchangeShare      float64 `yaml:"exchange_share" json:"exchange_share"`
	OneRankShare       float64 `yaml:"one_rank_share" json:"one_rank_share"`
	Reopenings         int64   `yaml:"reopenings" json:"reopenings"`
	StatRequests       int64   `yaml:"stat_requests" json:"stat_requests"`
	SmallFiles         int64   `yaml:"small_files" json:"small_files"`
	SmallFileBytes     int64   `yaml:"small_file_bytes" json:"small_file_bytes"`
	StripeFileBytes    int64   `yaml:"stripe_file_bytes" json:"stripe_file_bytes"`
	STDIOShare         float64 `yaml:"stdio_share" json:"stdio_share"`
	STDIOBytes         int64   `yaml:"stdio_bytes" json:"stdio_bytes"`
}

//go:embed thresholds.yaml
var builtinThresholds []byte

// ThresholdsText returns the YAML of the built-in thresholds, as a template.
func ThresholdsText() []byte { return bytes.Clone(builtinThresholds) }

// ReadThresholds reads thresholds from YAML. Missing keys have the built-in value.
// Errors name the line or the key.
func ReadThresholds(r io.Reader) (*Thresholds, error) {
	t := Default()
	text, err := io.ReadAll(io.LimitReader(r, wording.MaxBytes+1))
	if err == nil {
		err = t.decode(text)
	}
	if err != nil {
		return nil, fmt.Errorf("thresholds: %w", err)
	}
	return t, nil
}

// Default returns the built-in thresholds.
func Default() *Thresholds {
	t := new(Thresholds)
	if err := t.decode(builtinThresholds); err != nil {
		panic("finding: built-in thresholds: " + err.Error())
	}
	return t
}

func (t *Thresholds) decode(text []byte) error {
	if err := wording.DecodeYAML(text, t); err != nil && !errors.Is(err, wording.ErrEmpty) {
		return err
	}
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		key := v.Type().Field(i).Tag.Get("yaml")
		var x float64
		if f := v.Field(i); f.CanFloat() {
			x = f.Float()
		} else {
			x = float64(f.Int())
		}
		switch {
		case !(x >= 0) || math.IsInf(x, 0):
			return fmt.Errorf("%s: %v: not a number from 0", key, x)
		case strings.HasSuffix(key, "_share") && x > 1:
			return fmt.Errorf("%s: %v: not a share from 0 to 1", key, x)
		}
	}
	if t.LargeBytes < t.SmallBytes {
		return fmt.Errorf("large_bytes: %d: less than small_bytes", t.LargeBytes)
	}
	return nil
}
