//! Where a gateway gets its plan: files and folders on disk.
