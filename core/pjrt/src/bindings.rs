//! The parts of PJRT's C interface that this crate calls, from `pjrt_c_api.h` of version 0.81 (OpenXLA, Apache-2.0).
//!
//! Each function takes a pointer to a struct that begins with its size, so that plugins with longer structs know which
//! fields a caller has. A plugin refuses structs that are shorter than its oldest version.

use std::ffi::{c_char, c_int, c_void};

/// A pointer to an object of the plugin.
pub(crate) type Handle = *mut c_void;

/// A function of the interface: returns an error, or null.
pub(crate) type Function = unsafe extern "C" fn(*mut c_void) -> Handle;

/// Version of the interface.
#[repr(C)]
pub(crate) struct ApiVersion {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut c_void,
    pub(crate) major: c_int,
    pub(crate) minor: c_int,
}

/// The head of the table of functions. `struct_size` tells how many follow.
#[repr(C)]
pub(crate) struct Api {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut c_void,
    pub(crate) version: ApiVersion,
}

/// Positions of functions behind the head of the table.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum At {
    ErrorDestroy = 0,
    ErrorMessage = 1,
    PluginInitialize = 3,
    EventDestroy = 5,
    EventAwait = 8,
    ClientCreate = 10,
    ClientDestroy = 11,
    ClientPlatformName = 12,
    ClientAddressableDevices = 16,
    ClientCompile = 20,
    ClientBufferFromHostBuffer = 22,
    ExecutableDestroy = 40,
    ExecutableNumOutputs = 44,
    LoadedExecutableDestroy = 50,
    LoadedExecutableGetExecutable = 51,
    LoadedExecutableExecute = 55,
    BufferDestroy = 58,
    BufferElementType = 59,
    BufferDimensions = 60,
    BufferToHostBuffer = 70,
}

macro_rules! args {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty,)* })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        pub(crate) struct $name {
            pub(crate) struct_size: usize,
            pub(crate) extension_start: *mut c_void,
            $(pub(crate) $field: $ty,)*
        }

        // SAFETY: all fields are numbers and pointers, and optional functions.
        unsafe impl Zeroed for $name {}

        impl $name {
            /// Returns arguments that are all zero, with their size.
            pub(crate) fn new() -> $name {
                let mut args: $name = zeroed();
                args.struct_size = size_of::<$name>();
                args
            }
        }
    )*};
}

/// A struct for which zero bytes are a value.
///
/// # Safety
///
/// All fields must allow zero bytes.
pub(crate) unsafe trait Zeroed {}

fn zeroed<T: Zeroed>() -> T {
    // SAFETY: the trait says that zero bytes are a value.
    unsafe { std::mem::zeroed() }
}

args! {
    /// Arguments without fields.
    Plain {}
    /// Arguments of functions that destroy or await an object.
    OfHandle { handle: Handle, }
    ErrorMessage { error: Handle, message: *const c_char, message_size: usize, }
    ClientCreate {
        create_options: *const c_void,
        num_options: usize,
        kv_get_callback: *const c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *const c_void,
        kv_put_user_arg: *mut c_void,
        client: Handle,
        kv_try_get_callback: *const c_void,
        kv_try_get_user_arg: *mut c_void,
    }
    ClientPlatformName { client: Handle, name: *const c_char, name_size: usize, }
    ClientAddressableDevices { client: Handle, devices: *const Handle, num_devices: usize, }
    Program {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }
    ClientCompile {
        client: Handle,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: Handle,
    }
    ClientBufferFromHostBuffer {
        client: Handle,
        data: *const c_void,
        element: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        semantics: c_int,
        device: Handle,
        memory: Handle,
        device_layout: Handle,
        done_with_host_buffer: Handle,
        buffer: Handle,
    }
    GetExecutable { loaded: Handle, executable: Handle, }
    NumOutputs { executable: Handle, num_outputs: usize, }
    ExecuteOptions {
        send_callbacks: *mut c_void,
        recv_callbacks: *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: Handle,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }
    Execute {
        executable: Handle,
        options: *mut ExecuteOptions,
        argument_lists: *const *const Handle,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut Handle,
        device_complete_events: *mut Handle,
        execute_device: Handle,
    }
    BufferElementType { buffer: Handle, element: c_int, }
    BufferDimensions { buffer: Handle, dims: *const i64, num_dims: usize, }
    ToHostBuffer {
        src: Handle,
        host_layout: Handle,
        dst: *mut c_void,
        dst_size: usize,
        event: Handle,
    }
}

/// The plugin copies host data before the call returns.
pub(crate) const IMMUTABLE_ONLY_DURING_CALL: c_int = 0;
