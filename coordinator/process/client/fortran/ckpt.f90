! ckpt: checkpoints of a running Fortran program.
!
!     use ckpt
!     call ckpt_init(rank, ranks)
!     call ckpt_protect('u', u)                   ! an array with the target attribute
!     do step = ckpt_restore() + 1, steps         ! 0, or the step to resume from
!       call compute(u)
!       if (ckpt_boundary(step) == CKPT_STOP) exit
!     end do
!     call ckpt_finalize()
!
! The module stands on the C header:
!
!     ckpt sdk c -o ckpt.h
!     ckpt sdk fortran -o ckpt.f90
!     mpicc -c -x c -include mpi.h ckpt.h -o ckpt_c.o
!     mpifort ckpt.f90 heat.f90 ckpt_c.o -o heat
!
! Without "ckpt launch" around it the program runs as ever: rank 0 says so in one
! line, and the other procedures do nothing.
!
! Procedures that can fail have a status as last argument or as result; ckpt_error()
! says what failed and what to do. A failure to save never ends the program. As with
! allocate, a wrong argument, or a checkpoint that is there and cannot be used, ends
! the program if the call has no status argument.
!
! Arrays are real, integer, complex, logical or character. Protected ones need the target
! attribute and must be contiguous; protect an array
! again after it was reallocated. Call the procedures from one thread at a time. This
! file is Fortran 2018.
module ckpt
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int8, int32, int64, real32, real64, output_unit
  implicit none
  private

  integer, parameter, public :: CKPT_OK = 0, CKPT_STOP = 1
  integer, parameter, public :: CKPT_NONE = -1, CKPT_ARGUMENT = -2, CKPT_SERVICE = -3
  integer, parameter, public :: CKPT_DAMAGE = -4, CKPT_FULL = -5, CKPT_MISMATCH = -6, CKPT_IO = -7
  ! Element types, as in ckpt.h.
  integer, parameter, public :: CKPT_BYTES = 0, CKPT_FLOAT64 = 1, CKPT_FLOAT32 = 2
  integer, parameter, public :: CKPT_FLOAT16 = 5, CKPT_BFLOAT16 = 6, CKPT_INT16 = 7, CKPT_FLOAT8 = 8, CKPT_INT8 = 9
  integer, parameter, public :: CKPT_INT32 = 3, CKPT_INT64 = 4

  public :: ckpt_init, ckpt_protect, ckpt_protect_global, ckpt_protect_indexed, ckpt_protect_replicated
  public :: ckpt_forget, ckpt_file
  public :: ckpt_alloc, ckpt_restore, ckpt_boundary
  public :: ckpt_save, ckpt_epoch, ckpt_wait, ckpt_query, ckpt_finalize, ckpt_error, ckpt_progress

  ! ckpt_protect(name, array [, status]) for arrays of any rank and for scalars, or
  ! ckpt_protect(name, address, bytes, type [, status]) for other memory.
  interface ckpt_protect
    procedure protect_real32, protect_real64, protect_int32, protect_int64
    procedure protect_complex32, protect_complex64, protect_logical, protect_logical8, protect_text
    procedure protect_memory
  end interface

  ! ckpt_protect_global(name, array, whole, first [, halo, block, stride, status, lower, upper,
  ! pad, of]) for the
  ! part that this process has of an array of all processes: whole is the shape of that
  ! array, first the index in it, from 1, of the first element here that is no halo. halo
  ! is how many elements there are more on either side. With block and stride the elements
  ! come in blocks of that length, whose first elements are so far apart. The last axes of
  ! an array of more axes than whole has are those of whole; the others are one cell. lower
  ! and upper are more elements of the halo on one side only, pad elements after all these that
  ! belong to nothing. of names the array of all processes where this one has several blocks of
  ! it, each protected under a name of its own.
  interface ckpt_protect_global
    procedure global_real32, global_real64, global_int32, global_int64, global_complex32, global_complex64
    procedure global_logical
  end interface

  ! ckpt_protect_indexed(name, array, cells, ids [, own, status]) for the cells of an array of
  ! all processes that a list names, such as vertices of a mesh: ids(i) is the number, from 1 to
  ! cells, of cell i here, and the first own of them are of this process, the others copies.
  ! Without own all are. The last axis of the array is that of the cells.
  interface ckpt_protect_indexed
    procedure indexed_real32, indexed_real64, indexed_int32, indexed_int64
  end interface

  ! ckpt_protect_replicated(name, array [, status]) for what all processes have alike.
  interface ckpt_protect_replicated
    procedure replicated_real32, replicated_real64, replicated_int32, replicated_int64
  end interface

  integer, parameter :: MAX_AXES = 8, COLUMN_MAJOR = 1
  integer, parameter :: IS_LOCAL = 0, IS_REPLICATED = 1

  type, bind(c) :: global_part
    integer(c_int) :: axes = 0
    integer(c_long_long), dimension(MAX_AXES) :: whole = 0, first = 0, count = 0, halo = 0, block = 0, stride = 0
    integer(c_int) :: order = COLUMN_MAJOR
    integer(c_long_long), dimension(MAX_AXES) :: lower = 0, upper = 0, pad = 0
    type(c_ptr) :: array = c_null_ptr
  end type

  ! A list of cells, as C counts them.
  type :: cell_list
    character(:), allocatable :: name
    integer(c_int64_t), pointer :: ids(:)
    type(cell_list), pointer :: next
  end type
  type(cell_list), pointer :: lists => null()

  ! The number of a step has the kind of the program's loop.
  interface ckpt_boundary
    procedure boundary_int32, boundary_int64
  end interface

  interface ckpt_save
    procedure save_int32, save_int64
  end interface

  interface ckpt_epoch
    procedure epoch_int32, epoch_int64
  end interface

  interface
    integer(c_int) function c_init(rank, size) bind(c, name='ckpt_init')
      import :: c_int
      integer(c_int), value :: rank, size
    end function
    integer(c_int) function c_protect(name, address, bytes, element) bind(c, name='ckpt_protect')
      import :: c_int, c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      integer(c_int), value :: element
    end function
    integer(c_int) function c_replicated(name, address, bytes, element) bind(c, name='ckpt_protect_replicated')
      import :: c_int, c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      integer(c_int), value :: element
    end function
    integer(c_int) function c_global(name, address, bytes, element, part) bind(c, name='ckpt_protect_global')
      import :: c_int, c_char, c_ptr, c_size_t, global_part
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: address
      integer(c_size_t), value :: bytes
      integer(c_int), value :: element
      type(global_part), intent(in) :: part
    end function
    integer(c_int) function c_indexed(name, address, bytes, element, cells, ids, own, held) &
      bind(c, name='ckpt_protect_indexed')
      import :: c_int, c_char, c_ptr, c_size_t, c_long_long
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: address, ids
      integer(c_size_t), value :: bytes
      integer(c_int), value :: element
      integer(c_long_long), value :: cells, own, held
    end function
    integer(c_int) function c_forget(name) bind(c, name='ckpt_forget')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_file(path) bind(c, name='ckpt_file')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: path(*)
    end function
    type(c_ptr) function c_alloc(name, bytes, element) bind(c, name='ckpt_alloc')
      import :: c_int, c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: bytes
      integer(c_int), value :: element
    end function
    integer(c_long) function c_restore() bind(c, name='ckpt_restore')
      import :: c_long
    end function
    integer(c_int) function c_boundary(step) bind(c, name='ckpt_boundary')
      import :: c_int, c_long
      integer(c_long), value :: step
    end function
    integer(c_int) function c_save(step) bind(c, name='ckpt_save')
      import :: c_int, c_long
      integer(c_long), value :: step
    end function
    integer(c_int) function c_epoch(step) bind(c, name='ckpt_epoch')
      import :: c_int, c_long
      integer(c_long), value :: step
    end function
    integer(c_int) function c_wait() bind(c, name='ckpt_wait')
      import :: c_int
    end function
    integer(c_long_long) function c_query(name) bind(c, name='ckpt_query')
      import :: c_long_long, c_char
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_finalize() bind(c, name='ckpt_finalize')
      import :: c_int
    end function
    type(c_ptr) function c_error() bind(c, name='ckpt_error')
      import :: c_ptr
    end function
    subroutine c_output(call_back) bind(c, name='ckpt_i_output')
      import :: c_funptr
      type(c_funptr), value :: call_back
    end subroutine
    subroutine c_progress(call_back) bind(c, name='ckpt_progress')
      import :: c_funptr
      type(c_funptr), value :: call_back
    end subroutine
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

  ! The reason if this module itself refused the last call.
  character(:), allocatable :: refusal

contains

  ! Connect this process to its agent.
  subroutine ckpt_init(rank, ranks, status)
    integer, intent(in) :: rank, ranks
    integer, intent(out), optional :: status
    integer :: result
    call c_output(c_funloc(flush_output))
    result = int(c_init(int(rank, c_int), int(ranks, c_int)))
    call give(result, status)
  end subroutine

  ! What was printed leaves the process before a checkpoint: it is not printed again.
  subroutine flush_output() bind(c, name='')
    flush (output_unit)
  end subroutine

  ! Protect name no longer.
  subroutine ckpt_forget(name, status)
    character(*), intent(in) :: name
    integer, intent(out), optional :: status
    call give(int(c_forget(c_text(name))), status)
  end subroutine

  ! A file that grows belongs to the checkpoint: ckpt_restore cuts off what was written after it.
  ! The process that writes the file calls this before ckpt_restore, opens the file with
  ! position='append' when it resumes, and flushes it before each boundary.
  subroutine ckpt_file(path, status)
    character(*), intent(in) :: path
    integer, intent(out), optional :: status
    call give(int(c_file(c_text(path))), status)
  end subroutine

  ! Return memory on pages of its own, protected; c_f_pointer makes an array of it.
  function ckpt_alloc(name, bytes, element) result(address)
    character(*), intent(in) :: name
    integer(int64), intent(in) :: bytes
    integer, intent(in) :: element
    type(c_ptr) :: address
    address = c_alloc(c_text(name), int(bytes, c_size_t), int(element, c_int))
  end function

  ! Fill the protected arrays from the newest checkpoint. The result is the step to
  ! resume from, or 0 if there is no checkpoint.
  function ckpt_restore(status) result(step)
    integer, intent(out), optional :: status
    integer(int64) :: step
    step = int(c_restore(), int64)
    call give(int(min(step, 0_int64)), status)
    step = max(step, 0_int64)
  end function

  ! Take a checkpoint if one is due; the result is CKPT_STOP if the program is to end.
  integer function boundary_int64(step)
    integer(int64), intent(in) :: step
    boundary_int64 = int(c_boundary(int(step, c_long)))
  end function

  integer function boundary_int32(step)
    integer(int32), intent(in) :: step
    boundary_int32 = int(c_boundary(int(step, c_long)))
  end function

  ! Take a checkpoint now. All ranks must call it after the same number of boundaries.
  integer function save_int64(step)
    integer(int64), intent(in) :: step
    save_int64 = int(c_save(int(step, c_long)))
  end function

  integer function save_int32(step)
    integer(int32), intent(in) :: step
    save_int32 = int(c_save(int(step, c_long)))
  end function

  ! ckpt_boundary at the end of an epoch: with --every epoch a checkpoint is taken there.
  integer function epoch_int64(step)
    integer(int64), intent(in) :: step
    epoch_int64 = int(c_epoch(int(step, c_long)))
  end function

  integer function epoch_int32(step)
    integer(int32), intent(in) :: step
    epoch_int32 = int(c_epoch(int(step, c_long)))
  end function

  ! Wait until the checkpoint that is written behind the computation is stored.
  integer function ckpt_wait()
    ckpt_wait = int(c_wait())
  end function

  ! Return the bytes of a region in the checkpoint to resume from, or CKPT_NONE. An empty
  ! name asks for the step of that checkpoint.
  integer(int64) function ckpt_query(name)
    character(*), intent(in) :: name
    ckpt_query = int(c_query(c_text(name)), int64)
  end function

  ! Say that the program ends on purpose, so that nothing starts it again.
  subroutine ckpt_finalize(status)
    integer, intent(out), optional :: status
    integer :: result
    result = int(c_finalize())
    if (present(status)) status = result
  end subroutine

  ! Return what failed last, and what to do.
  function ckpt_error() result(text)
    character(:), allocatable :: text
    character(kind=c_char), pointer :: chars(:)
    type(c_ptr) :: address
    integer :: i
    address = c_error()
    text = ''
    if (allocated(refusal)) text = refusal
    if (allocated(refusal)) return
    if (.not. c_associated(address)) return
    call c_f_pointer(address, chars, [c_strlen(address)])
    allocate (character(size(chars)) :: text)
    do i = 1, size(chars)
      text(i:i) = chars(i)
    end do
  end function

  ! Call call_back about every millisecond while a call waits, in place of MPI's probe.
  subroutine ckpt_progress(call_back)
    interface
      subroutine call_back() bind(c)
      end subroutine
    end interface
    call c_progress(c_funloc(call_back))
  end subroutine

  subroutine protect_real32(name, array, status)
    character(*), intent(in) :: name
    real(real32), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 4, CKPT_FLOAT32, is_contiguous(array), status)
  end subroutine

  subroutine protect_real64(name, array, status)
    character(*), intent(in) :: name
    real(real64), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 8, CKPT_FLOAT64, is_contiguous(array), status)
  end subroutine

  subroutine protect_int32(name, array, status)
    character(*), intent(in) :: name
    integer(int32), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 4, CKPT_INT32, is_contiguous(array), status)
  end subroutine

  subroutine protect_int64(name, array, status)
    character(*), intent(in) :: name
    integer(int64), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 8, CKPT_INT64, is_contiguous(array), status)
  end subroutine

  subroutine protect_complex32(name, array, status)
    character(*), intent(in) :: name
    complex(real32), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 8, CKPT_FLOAT32, is_contiguous(array), status)
  end subroutine

  subroutine protect_complex64(name, array, status)
    character(*), intent(in) :: name
    complex(real64), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 16, CKPT_FLOAT64, is_contiguous(array), status)
  end subroutine

  subroutine protect_logical(name, array, status)
    character(*), intent(in) :: name
    logical, intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * storage_size(array) / 8, CKPT_BYTES, is_contiguous(array), status)
  end subroutine

  subroutine protect_logical8(name, array, status)
    character(*), intent(in) :: name
    logical(int8), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64), CKPT_BYTES, is_contiguous(array), status)
  end subroutine

  subroutine protect_text(name, array, status)
    character(*), intent(in) :: name
    character(*), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * len(array), CKPT_BYTES, is_contiguous(array), status)
  end subroutine

  subroutine protect_memory(name, address, bytes, element, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer, intent(in) :: element
    integer, intent(out), optional :: status
    call protect(name, address, bytes, element, .true., status)
  end subroutine

  subroutine replicated_real32(name, array, status)
    character(*), intent(in) :: name
    real(real32), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 4, CKPT_FLOAT32, is_contiguous(array), status, IS_REPLICATED)
  end subroutine

  subroutine replicated_real64(name, array, status)
    character(*), intent(in) :: name
    real(real64), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 8, CKPT_FLOAT64, is_contiguous(array), status, IS_REPLICATED)
  end subroutine

  subroutine replicated_int32(name, array, status)
    character(*), intent(in) :: name
    integer(int32), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 4, CKPT_INT32, is_contiguous(array), status, IS_REPLICATED)
  end subroutine

  subroutine replicated_int64(name, array, status)
    character(*), intent(in) :: name
    integer(int64), intent(in), target :: array(..)
    integer, intent(out), optional :: status
    call protect(name, c_loc(array), size(array, kind=int64) * 8, CKPT_INT64, is_contiguous(array), status, IS_REPLICATED)
  end subroutine

  subroutine global_real32(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    real(real32), intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), 4_int64, CKPT_FLOAT32, is_contiguous(array), &
                whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  subroutine global_real64(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    real(real64), intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), 8_int64, CKPT_FLOAT64, is_contiguous(array), &
                whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  subroutine global_int32(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    integer(int32), intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), 4_int64, CKPT_INT32, is_contiguous(array), &
                whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  subroutine global_int64(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    integer(int64), intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), 8_int64, CKPT_INT64, is_contiguous(array), &
                whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  subroutine global_complex32(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    complex(real32), intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), 8_int64, CKPT_FLOAT32, is_contiguous(array), &
                whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  subroutine global_complex64(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    complex(real64), intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), 16_int64, CKPT_FLOAT64, is_contiguous(array), &
                whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  subroutine global_logical(name, array, whole, first, halo, block, stride, status, lower, upper, pad, of)
    character(*), intent(in) :: name
    logical, intent(in), target :: array(..)
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    call global(name, c_loc(array), shape(array, kind=int64), storage_size(array, kind=int64) / 8, CKPT_BYTES, &
                is_contiguous(array), whole, first, halo, block, stride, status, lower, upper, pad, of)
  end subroutine

  ! Protect a part of an array of all processes; its own shape is sides.
  subroutine global(name, address, sides, bytes, element, contiguous, whole, first, halo, block, stride, status, &
                    lower, upper, pad, of)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: sides(:), bytes
    integer, intent(in) :: element
    logical, intent(in) :: contiguous
    integer, intent(in) :: whole(:), first(:)
    integer, intent(in), optional :: halo(:), block(:), stride(:), lower(:), upper(:), pad(:)
    character(*), intent(in), optional :: of
    integer, intent(out), optional :: status
    type(global_part) :: part
    character(kind=c_char), allocatable, target :: array(:)
    logical :: fits
    integer :: n, inner
    n = size(whole)
    inner = size(sides) - n
    if (n < 1 .or. n > MAX_AXES .or. inner < 0 .or. size(first) /= n) then
      call refuse(trim(name)//' has other axes than the whole array', status)
      return
    end if
    part%axes = int(n, c_int)
    part%whole(:n) = int(whole, c_long_long)
    part%first(:n) = int(first, c_long_long) - 1
    fits = .true.
    call copy(part%halo, halo, n, fits)
    call copy(part%block, block, n, fits)
    call copy(part%stride, stride, n, fits)
    call copy(part%lower, lower, n, fits)
    call copy(part%upper, upper, n, fits)
    call copy(part%pad, pad, n, fits)
    if (.not. fits) then
      call refuse(trim(name)//' has a halo, blocks or strides for other axes than the whole array', status)
      return
    end if
    part%count(:n) = int(sides(inner + 1:), c_long_long) - 2 * part%halo(:n) - part%lower(:n) - part%upper(:n) - part%pad(:n)
    if (present(of)) then
      array = c_text(of)
      part%array = c_loc(array)
    end if
    if (.not. contiguous) then
      call refuse(trim(name)//' is not contiguous: protect the whole array, or a copy', status)
      return
    end if
    if (allocated(refusal)) deallocate (refusal)
    call give(int(c_global(c_text(name), address, int(product(sides) * bytes, c_size_t), int(element, c_int), part)), status)
  end subroutine

  subroutine indexed_real32(name, array, cells, ids, own, status)
    character(*), intent(in) :: name
    real(real32), intent(in), target :: array(..)
    integer, intent(in) :: cells, ids(:)
    integer, intent(in), optional :: own
    integer, intent(out), optional :: status
    call indexed(name, c_loc(array), size(array, kind=int64) * 4, CKPT_FLOAT32, is_contiguous(array), cells, ids, own, status)
  end subroutine

  subroutine indexed_real64(name, array, cells, ids, own, status)
    character(*), intent(in) :: name
    real(real64), intent(in), target :: array(..)
    integer, intent(in) :: cells, ids(:)
    integer, intent(in), optional :: own
    integer, intent(out), optional :: status
    call indexed(name, c_loc(array), size(array, kind=int64) * 8, CKPT_FLOAT64, is_contiguous(array), cells, ids, own, status)
  end subroutine

  subroutine indexed_int32(name, array, cells, ids, own, status)
    character(*), intent(in) :: name
    integer(int32), intent(in), target :: array(..)
    integer, intent(in) :: cells, ids(:)
    integer, intent(in), optional :: own
    integer, intent(out), optional :: status
    call indexed(name, c_loc(array), size(array, kind=int64) * 4, CKPT_INT32, is_contiguous(array), cells, ids, own, status)
  end subroutine

  subroutine indexed_int64(name, array, cells, ids, own, status)
    character(*), intent(in) :: name
    integer(int64), intent(in), target :: array(..)
    integer, intent(in) :: cells, ids(:)
    integer, intent(in), optional :: own
    integer, intent(out), optional :: status
    call indexed(name, c_loc(array), size(array, kind=int64) * 8, CKPT_INT64, is_contiguous(array), cells, ids, own, status)
  end subroutine

  ! Protect cells that a list names. C counts them from 0, in a list of its own.
  subroutine indexed(name, address, bytes, element, contiguous, cells, ids, own, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer, intent(in) :: element, cells, ids(:)
    logical, intent(in) :: contiguous
    integer, intent(in), optional :: own
    integer, intent(out), optional :: status
    integer(c_int64_t), pointer :: list(:)
    type(cell_list), pointer :: entry
    integer(c_long_long) :: mine
    integer :: result
    if (.not. contiguous) then
      call refuse(trim(name)//' is not contiguous: protect the whole array, or a copy', status)
      return
    end if
    if (allocated(refusal)) deallocate (refusal)
    mine = size(ids)
    if (present(own)) mine = own
    allocate (list(size(ids)))
    list = int(ids, c_int64_t) - 1
    result = int(c_indexed(c_text(name), address, int(bytes, c_size_t), int(element, c_int), int(cells, c_long_long), &
                           c_loc(list), mine, size(ids, kind=c_long_long)))
    if (result == CKPT_ARGUMENT) then
      deallocate (list)
    else
      entry => lists
      do while (associated(entry))
        if (entry%name == trim(name)) exit
        entry => entry%next
      end do
      if (associated(entry)) then
        deallocate (entry%ids)
      else
        allocate (entry)
        entry%name = trim(name)
        entry%next => lists
        lists => entry
      end if
      entry%ids => list
    end if
    call give(result, status)
  end subroutine

  ! Copy numbers that are given, of n axes. Other axes do not fit.
  subroutine copy(to, from, n, fits)
    integer(c_long_long), intent(inout) :: to(:)
    integer, intent(in), optional :: from(:)
    integer, intent(in) :: n
    logical, intent(inout) :: fits
    if (.not. present(from)) return
    fits = fits .and. size(from) == n
    if (fits) to(:n) = int(from, c_long_long)
  end subroutine

  ! Refuse a call, as C would.
  subroutine refuse(text, status)
    character(*), intent(in) :: text
    integer, intent(out), optional :: status
    refusal = 'ckpt_protect: '//text
    call give(CKPT_ARGUMENT, status)
  end subroutine

  subroutine protect(name, address, bytes, element, contiguous, status, sharing)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer, intent(in) :: element
    logical, intent(in) :: contiguous
    integer, intent(out), optional :: status
    integer, intent(in), optional :: sharing
    integer :: kind
    kind = IS_LOCAL
    if (present(sharing)) kind = sharing
    if (.not. contiguous) then
      call refuse(trim(name)//' is not contiguous: protect the whole array, or a copy', status)
      return
    end if
    if (allocated(refusal)) deallocate (refusal)
    if (kind == IS_REPLICATED) then
      call give(int(c_replicated(c_text(name), address, int(bytes, c_size_t), int(element, c_int))), status)
    else
      call give(int(c_protect(c_text(name), address, int(bytes, c_size_t), int(element, c_int))), status)
    end if
  end subroutine

  ! Hand a status to the caller. Without a place for it, errors that the program cannot
  ! ignore end it; a lost service does not.
  subroutine give(result, status)
    integer, intent(in) :: result
    integer, intent(out), optional :: status
    if (present(status)) then
      status = result
    else if (result < 0 .and. result /= CKPT_SERVICE) then
      error stop ckpt_error()
    end if
  end subroutine

  ! Return a name as C wants it, without trailing blanks.
  function c_text(name) result(text)
    character(*), intent(in) :: name
    character(kind=c_char) :: text(len_trim(name) + 1)
    integer :: i
    do i = 1, len_trim(name)
      text(i) = name(i:i)
    end do
    text(size(text)) = c_null_char
  end function

end module
