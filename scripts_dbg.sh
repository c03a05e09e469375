T=build/gpu-tests/spillway_gpu_tests
for f in "group by: numbers" "group by: values" "group by: NULL" "group by: tables" "group by: extreme" "group by: more" "group by: Zipf" "group by: seeded" ; do timeout 60 $T --filter "$f" > /tmp/o 2>&1; echo "$f rc $?"; grep -v "^ok" /tmp/o | tail -2 | cut -c1-300; done
which gdb
