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
! Protected arrays need the target attribute and must be contiguous; protect an array
! again after it was reallocated. Call the procedures from one thread at a time. This
! file is Fortran 2018.
module ckpt
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  implicit none
  private

  integer, parameter, public :: CKPT_OK = 0, CKPT_STOP = 1
  integer, parameter, public :: CKPT_NONE = -1, CKPT_ARGUMENT = -2, CKPT_SERVICE = -3
  integer, parameter, public :: CKPT_DAMAGE = -4, CKPT_FULL = -5, CKPT_MISMATCH = -6, CKPT_IO = -7
  ! Element types, as in ckpt.h.
  integer, parameter, public :: CKPT_BYTES = 0, CKPT_FLOAT64 = 1, CKPT_FLOAT32 = 2
  integer, parameter, public :: CKPT_INT32 = 3, CKPT_INT64 = 4

  public :: ckpt_init, ckpt_protect, ckpt_forget, ckpt_alloc, ckpt_restore, ckpt_boundary
  public :: ckpt_save, ckpt_wait, ckpt_query, ckpt_finalize, ckpt_error, ckpt_progress

  ! ckpt_protect(name, array [, status]) for arrays of any rank and for scalars, or
  ! ckpt_protect(name, address, bytes, type [, status]) for other memory.
  interface ckpt_protect
    procedure protect_real32, protect_real64, protect_int32, protect_int64
    procedure protect_complex32, protect_complex64, protect_memory
  end interface

  ! The number of a step has the kind of the program's loop.
  interface ckpt_boundary
    procedure boundary_int32, boundary_int64
  end interface

  interface ckpt_save
    procedure save_int32, save_int64
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
    integer(c_int) function c_forget(name) bind(c, name='ckpt_forget')
      import :: c_int, c_char
      character(kind=c_char), intent(in) :: name(*)
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
    result = int(c_init(int(rank, c_int), int(ranks, c_int)))
    call give(result, status)
  end subroutine

  ! Protect name no longer.
  subroutine ckpt_forget(name, status)
    character(*), intent(in) :: name
    integer, intent(out), optional :: status
    call give(int(c_forget(c_text(name))), status)
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

  subroutine protect_memory(name, address, bytes, element, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer, intent(in) :: element
    integer, intent(out), optional :: status
    call protect(name, address, bytes, element, .true., status)
  end subroutine

  subroutine protect(name, address, bytes, element, contiguous, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer, intent(in) :: element
    logical, intent(in) :: contiguous
    integer, intent(out), optional :: status
    if (.not. contiguous) then
      refusal = 'ckpt_protect: '//trim(name)//' is not contiguous: protect the whole array, or a copy'
      call give(CKPT_ARGUMENT, status)
      return
    end if
    if (allocated(refusal)) deallocate (refusal)
    call give(int(c_protect(c_text(name), address, int(bytes, c_size_t), int(element, c_int))), status)
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
